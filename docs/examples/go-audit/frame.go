package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"regexp"
)

const (
	sealBytes, endBytes, mostLines = 71, 22, 128 << 20
	newest, date, madeBy           = 20, 0x21, 0x0314
	attributes                     = 0x01800000
)

var topicName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,249}$`)

// record is a Kafka record as a line of a segment has it.
type record struct {
	topic             string
	partition, offset int64
	timestamp         int64
	hasKey, hasValue  bool
	key, value        []byte
}

type segment struct {
	topic, name, sha256     string
	partition, first, last  int64
	count, rawBytes, stored int64
}

type part struct {
	number, size, completeFrom, records, selected int64
	hashes                                        string
}

// manifest is what a package states of itself.
type manifest struct {
	fields               object
	installation, prefix string
	by                   string
	value                any
	onlySelected         bool
	parts                []part
	segments             []segment
	digest               string
}

// pack is an opened package. Its members are where the manifest has them lie.
type pack struct {
	data     []byte
	manifest manifest
	at, size map[string]int64
	findings []string
}

func (p *pack) report(code, format string, values ...any) {
	p.findings = append(p.findings, code+": "+fmt.Sprintf(format, values...))
}

func hashHex(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// openPack reads the manifest and compares every byte between the members.
func openPack(data []byte) (*pack, error) {
	size := len(data)
	if size < sealBytes+endBytes || !bytes.Equal(data[size-sealBytes-endBytes:][:4], []byte("PK\x05\x06")) {
		return nil, errors.New("it does not end as a package does")
	}
	end := data[size-sealBytes-endBytes:]
	directoryBytes, directoryAt := int(binary.LittleEndian.Uint32(end[12:])), int(binary.LittleEndian.Uint32(end[16:]))
	entryBytes := 46 + len("manifest.json")
	if directoryBytes < entryBytes || directoryAt+directoryBytes+len(end) != size {
		return nil, errors.New("its directory is not where its end says")
	}
	entry := data[directoryAt+directoryBytes-entryBytes:]
	stored, at := int(binary.LittleEndian.Uint32(entry[24:])), int(binary.LittleEndian.Uint32(entry[42:]))
	if string(entry[46:entryBytes]) != "manifest.json" || at+30+len("manifest.json")+stored != directoryAt {
		return nil, errors.New("manifest.json is not where the directory says")
	}
	raw := data[directoryAt-stored : directoryAt]
	stated, err := readManifest(raw)
	if err != nil {
		return nil, err
	}
	p := &pack{data: data, manifest: *stated, at: map[string]int64{}, size: map[string]int64{}}
	return p, p.compareFrame(int64(len(raw)))
}

func (p *pack) compareFrame(manifestBytes int64) error {
	type member struct {
		name   string
		size   int64
		digest string
	}
	members := []member{}
	for _, each := range p.manifest.segments {
		members = append(members, member{each.name, each.stored, each.sha256})
	}
	for _, each := range p.manifest.parts {
		if each.hashes != "" {
			members = append(members, member{fmt.Sprintf("hashes/%d.bin", each.number), 32 * (each.completeFrom - 1), each.hashes})
		}
	}
	members = append(members, member{"manifest.json", manifestBytes, p.manifest.digest[7:]})
	var directory bytes.Buffer
	at := int64(0)
	for _, each := range members {
		header := int64(30 + len(each.name))
		if _, twice := p.at[each.name]; twice || each.size < 0 || at+header+each.size > int64(len(p.data)) {
			return errors.New("the manifest states a member twice, or more than the file has")
		}
		content := p.data[at+header : at+header+each.size]
		frame := packInts(newest, 0, 0, 0, date)
		frame = binary.LittleEndian.AppendUint32(frame, crc32.ChecksumIEEE(content))
		frame = binary.LittleEndian.AppendUint32(frame, uint32(each.size))
		frame = binary.LittleEndian.AppendUint32(frame, uint32(each.size))
		frame = append(frame, packInts(len(each.name), 0)...)
		if string(p.data[at:at+header]) != "PK\x03\x04"+string(frame)+each.name {
			p.report("package_damaged", "%s: another header", each.name)
		}
		if hashHex(content) != each.digest {
			p.report("package_damaged", "%s: another SHA-256", each.name)
		}
		directory.WriteString("PK\x01\x02")
		directory.Write(packInts(madeBy))
		directory.Write(frame)
		directory.Write(packInts(0, 0, 0))
		directory.Write(binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, attributes), uint32(at)))
		directory.WriteString(each.name)
		p.at[each.name], p.size[each.name] = at+header, each.size
		at += header + each.size
	}
	end := append([]byte("PK\x05\x06"), packInts(0, 0, len(members), len(members))...)
	end = binary.LittleEndian.AppendUint32(end, uint32(directory.Len()))
	end = binary.LittleEndian.AppendUint32(end, uint32(at))
	end = append(end, packInts(sealBytes)...)
	if string(p.data[at:]) != directory.String()+string(end)+p.manifest.digest {
		p.report("package_damaged", "another directory, end or digest")
	}
	return nil
}

func packInts(values ...int) []byte {
	out := []byte{}
	for _, value := range values {
		out = binary.LittleEndian.AppendUint16(out, uint16(value))
	}
	return out
}

func (p *pack) member(name string) []byte {
	return p.data[p.at[name] : p.at[name]+p.size[name]]
}

// readSegment reads the records of a segment; what is not as the manifest states is a finding.
func (p *pack) readSegment(of segment) []record {
	unpacker, err := gzip.NewReader(bytes.NewReader(p.member(of.name)))
	if err != nil {
		p.report("package_damaged", "%s: %v", of.name, err)
		return nil
	}
	lines, err := io.ReadAll(io.LimitReader(unpacker, of.rawBytes+1))
	if err != nil || int64(len(lines)) != of.rawBytes {
		p.report("package_damaged", "%s: it does not unpack to %d bytes", of.name, of.rawBytes)
		return nil
	}
	records, before := []record{}, of.first-1
	for _, line := range bytes.SplitAfter(lines, []byte("\n")) {
		if len(line) == 0 {
			continue
		}
		read, err := readRecord(line)
		if err != nil || read.topic != of.topic || read.partition != of.partition || read.offset <= before || read.offset > of.last {
			p.report("package_damaged", "%s: line %d", of.name, len(records)+1)
			return records
		}
		before = read.offset
		records = append(records, read)
	}
	if int64(len(records)) != of.count || before != of.last {
		p.report("package_damaged", "%s: %d records up to %d", of.name, len(records), before)
	}
	return records
}

func readRecord(line []byte) (record, error) {
	fields, err := parseObject(bytes.TrimRight(line, "\n"))
	if err != nil {
		return record{}, err
	}
	read := record{topic: text(fields["topic"])}
	var fine [3]bool
	read.partition, fine[0] = whole(fields["partition"])
	read.offset, fine[1] = whole(fields["offset"])
	read.timestamp, fine[2] = whole(fields["timestamp"])
	if fine != [3]bool{true, true, true} {
		return record{}, errors.New("a number is missing")
	}
	if encoded, ok := fields["key"].(string); ok {
		read.hasKey = true
		if read.key, err = base64.StdEncoding.DecodeString(encoded); err != nil {
			return record{}, err
		}
	}
	if encoded, ok := fields["value_base64"].(string); ok {
		if fields["value"] != nil {
			return record{}, errors.New("value and value_base64 are both there")
		}
		read.hasValue = true
		read.value, err = base64.StdEncoding.DecodeString(encoded)
	} else if value, ok := fields["value"].(string); ok {
		read.hasValue, read.value = true, []byte(value)
	}
	return read, err
}
