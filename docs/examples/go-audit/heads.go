package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

const headType = "application/vnd.sluice.tree-head+json"

type hash = [32]byte

type head struct {
	number, size int64
	digest       string
	previous     string
	signedAt     string
	of           [2]string
	sizes        []int64
	roots        []hash
}

// envelope is a DSSE envelope; `signed` is what its signatures are over.
type envelope struct {
	kind       string
	payload    []byte
	signed     []byte
	keyids     []string
	signatures [][]byte
}

func openEnvelope(value []byte) (*envelope, error) {
	fields, err := parseObject(value)
	if err != nil {
		return nil, err
	}
	read := &envelope{kind: text(fields["payloadType"])}
	if read.payload, err = decode(fields["payload"]); err != nil {
		return nil, err
	}
	read.signed = []byte(fmt.Sprintf("DSSEv1 %d %s %d ", len(read.kind), read.kind, len(read.payload)))
	read.signed = append(read.signed, read.payload...)
	for _, each := range list(fields["signatures"]) {
		signature, err := decode(fieldsOf(each)["sig"])
		if err != nil {
			return nil, err
		}
		read.keyids = append(read.keyids, text(fieldsOf(each)["keyid"]))
		read.signatures = append(read.signatures, signature)
	}
	return read, nil
}

func decode(value any) ([]byte, error) {
	standard := strings.NewReplacer("-", "+", "_", "/").Replace(text(value))
	return base64.StdEncoding.Strict().DecodeString(standard)
}

// readKey reads a public key: base64 of 32 bytes.
func readKey(encoded string) (ed25519.PublicKey, error) {
	raw, err := decode(encoded)
	if err == nil && len(raw) != ed25519.PublicKeySize {
		err = errors.New("a public key has 32 bytes")
	}
	return raw, err
}

func leafHash(content []byte) hash { return sha256.Sum256(append([]byte{0}, content...)) }

func nodeHash(left, right hash) hash {
	return sha256.Sum256(append(append([]byte{1}, left[:]...), right[:]...))
}

// tree is a Merkle tree of RFC 6962 that grows: the roots of its full subtrees, largest first.
type tree struct {
	full []hash
	size int64
}

func (t *tree) add(leaf hash) {
	for size := t.size; size&1 == 1; size >>= 1 {
		leaf = nodeHash(t.full[len(t.full)-1], leaf)
		t.full = t.full[:len(t.full)-1]
	}
	t.full = append(t.full, leaf)
	t.size++
}

func (t *tree) root() hash {
	if len(t.full) == 0 {
		return sha256.Sum256(nil)
	}
	root := t.full[len(t.full)-1]
	for at := len(t.full) - 2; at >= 0; at-- {
		root = nodeHash(t.full[at], root)
	}
	return root
}

func readHash(value any) (hash, bool) {
	digits, found := strings.CutPrefix(text(value), "sha256:")
	var read hash
	if !found || !hexHash.MatchString(digits) {
		return read, false
	}
	hex.Decode(read[:], []byte(digits))
	return read, true
}

func readHead(opened *envelope) (*head, error) {
	fields, err := parseObject(opened.payload)
	if err != nil {
		return nil, err
	}
	written, err := canonicalize(fields)
	if err != nil || !bytes.Equal(written, opened.payload) || opened.kind != headType || fields["schema"] != "sluice/tree_head/v1" {
		return nil, errors.New("no tree head")
	}
	read := &head{
		digest: "sha256:" + hashHex(opened.payload), previous: text(fields["previous"]), signedAt: text(fields["signed_at"]),
		of: [2]string{text(fields["installation"]), text(fields["topic_prefix"])},
	}
	var over tree
	total := int64(0)
	for at, each := range list(fields["partitions"]) {
		size, good := whole(fieldsOf(each)["size"])
		number, numbered := whole(fieldsOf(each)["partition"])
		root, rooted := readHash(fieldsOf(each)["root"])
		leaf, err := canonicalize(each)
		if !good || !numbered || !rooted || err != nil || number != int64(at) {
			return nil, errors.New("a partition of the head is not described")
		}
		over.add(leafHash(leaf))
		total += size
		read.sizes, read.roots = append(read.sizes, size), append(read.roots, root)
	}
	root, rooted := readHash(fields["root"])
	size, sized := whole(fields["size"])
	number, numbered := whole(fields["number"])
	if !rooted || !sized || !numbered || root != over.root() || size != total {
		return nil, errors.New("its root or size is not that of its partitions")
	}
	read.number, read.size = number, size
	return read, nil
}

// checkHeads checks the series of heads, and gives those that count.
func (p *pack) checkHeads(keys []ed25519.PublicKey) []head {
	heads := []head{}
	topic := p.manifest.prefix + "gate.tree_heads"
	for _, of := range p.manifest.segments {
		if of.topic != topic {
			continue
		}
		for _, read := range p.readSegment(of) {
			opened, err := openEnvelope(read.value)
			if err != nil {
				p.report("head_broken", "offset %d: %v", read.offset, err)
				continue
			}
			next, err := readHead(opened)
			if err != nil {
				p.report("head_broken", "offset %d: %v", read.offset, err)
				continue
			}
			if len(keys) > 0 && !isSignedBy(opened, keys) {
				p.report("head_forged", "head %d", next.number)
				continue
			}
			number, previous := int64(0), "GENESIS"
			if len(heads) > 0 {
				number, previous = heads[len(heads)-1].number, heads[len(heads)-1].digest
			}
			if next.number != number+1 || next.previous != previous {
				p.report("head_broken", "head %d does not follow on head %d", next.number, number)
			}
			if next.of != [2]string{p.manifest.installation, p.manifest.prefix} {
				p.report("head_forged", "head %d is of another installation", next.number)
			}
			heads = append(heads, *next)
		}
	}
	if len(keys) > 0 && len(heads) == 0 {
		p.report("head_missing", "no head by a key that was given")
	}
	p.compareNewest(heads)
	return heads
}

func (p *pack) compareNewest(heads []head) {
	stated := fieldsOf(p.manifest.fields["head"])
	if len(heads) == 0 {
		if stated != nil {
			p.report("head_missing", "the manifest names a head")
		}
		return
	}
	newest := heads[len(heads)-1]
	number, _ := whole(stated["number"])
	size, _ := whole(stated["size"])
	if number != newest.number || size != newest.size || text(stated["digest"]) != newest.digest {
		p.report("head_missing", "the newest head is not the manifest's")
	}
	numbers := map[int64]bool{}
	for _, each := range p.manifest.parts {
		numbers[each.number] = true
		if each.number >= int64(len(newest.sizes)) || newest.sizes[each.number] != each.size {
			p.report("rewritten", "partition %d: head %d signs another size than %d", each.number, newest.number, each.size)
		}
	}
	if (p.manifest.by == "agent" || p.manifest.by == "since") && len(numbers) != len(newest.sizes) {
		p.report("incomplete", "%d partitions of %d", len(numbers), len(newest.sizes))
	}
}

func isSignedBy(opened *envelope, keys []ed25519.PublicKey) bool {
	for _, key := range keys {
		for _, signature := range opened.signatures {
			if ed25519.Verify(key, opened.signed, signature) {
				return true
			}
		}
	}
	return false
}
