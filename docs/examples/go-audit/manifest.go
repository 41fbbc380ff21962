package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
)

var hexHash = regexp.MustCompile(`^[0-9a-f]{64}$`)

func text(value any) string { read, _ := value.(string); return read }

func list(value any) []any { read, _ := value.([]any); return read }

func fieldsOf(value any) object { read, _ := value.(object); return read }

// whole reads a number written without sign, fraction and exponent.
func whole(value any) (int64, bool) {
	number, ok := value.(json.Number)
	if !ok {
		return 0, false
	}
	read, err := strconv.ParseInt(number.String(), 10, 64)
	return read, err == nil && read >= 0
}

// readManifest reads what a package states of itself.
func readManifest(raw []byte) (*manifest, error) {
	fields, err := parseObject(raw)
	if err != nil {
		return nil, err
	}
	if written, err := canonicalize(fields); err != nil || !bytes.Equal(written, raw) {
		return nil, errors.New("manifest.json is not in its canonical form")
	}
	if fields["schema"] != "sluice/audit_package/v1" {
		return nil, errors.New("another schema")
	}
	selection := fieldsOf(fields["selection"])
	only, flagged := selection["only_selected"].(bool)
	stated := &manifest{
		fields:       fields,
		installation: text(fields["installation"]),
		prefix:       text(fields["topic_prefix"]),
		by:           text(selection["by"]),
		value:        selection["value"],
		onlySelected: only,
		digest:       "sha256:" + hashHex(raw),
	}
	if _, numbered := whole(stated.value); numbered != (stated.by == "since") || !numbered && text(stated.value) == "" || !flagged {
		return nil, errors.New("its selection is none")
	}
	good := true
	number := func(value any) int64 {
		read, ok := whole(value)
		good = good && ok
		return read
	}
	for _, name := range []string{"decided", "gone"} {
		topics, described := fields[name].(object)
		good = good && described
		for _, each := range topics {
			offsets, described := each.(object)
			good = good && described
			for _, offset := range offsets {
				number(offset)
			}
		}
	}
	if !good {
		return nil, errors.New("its offsets are not described")
	}
	for _, each := range list(fields["segments"]) {
		of := fieldsOf(each)
		read := segment{
			topic: text(of["topic"]), sha256: text(of["sha256"]), partition: number(of["partition"]),
			first: number(of["first"]), last: number(of["last"]), count: number(of["count"]),
			rawBytes: number(of["raw_bytes"]), stored: number(of["stored_bytes"]),
		}
		if !good || !topicName.MatchString(read.topic) || !hexHash.MatchString(read.sha256) || read.rawBytes > mostLines {
			return nil, errors.New("a segment is not described")
		}
		read.name = fmt.Sprintf("segments/%s/%d/%020d-%020d-%s.jsonl.gz", read.topic, read.partition, read.first, read.last, read.sha256[:16])
		stated.segments = append(stated.segments, read)
	}
	for _, each := range list(fields["partitions"]) {
		of := fieldsOf(each)
		read := part{
			number: number(of["partition"]), size: number(of["size"]), completeFrom: number(of["complete_from"]),
			records: number(of["records"]), selected: number(of["selected"]), hashes: text(of["hashes_sha256"]),
		}
		stands, described := of["hashes_sha256"]
		good = good && described && (stands == nil) == (read.completeFrom == 1)
		if !good || read.completeFrom < 1 || (read.hashes == "") != (read.completeFrom == 1) {
			return nil, errors.New("a partition is not described")
		}
		stated.parts = append(stated.parts, read)
	}
	return stated, nil
}

// offsetOf reads `decided` or `gone`.
func (m *manifest) offsetOf(name, topic string, partition int64) int64 {
	read, _ := whole(fieldsOf(fieldsOf(m.fields[name])[topic])[strconv.FormatInt(partition, 10)])
	return read
}
