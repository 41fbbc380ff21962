package main

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sort"
	"strings"
	"time"
)

const entryType = "application/vnd.sluice.registry-entry+json"

var bundleTypes = map[string]string{
	"application/vnd.sluice.bundle+json": "bundle", "application/vnd.sluice.quality-bundle+json": "quality_bundle",
}

type signer struct {
	owner string
	key   ed25519.PublicKey
	spec  object
}

type control struct {
	record   record
	isBundle bool
}

func keyid(key ed25519.PublicKey) string {
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:])
}

// checkPolicy holds what records name against the control records that somebody signed who might.
func (p *pack) checkPolicy(roots []ed25519.PublicKey, used map[string]string) {
	records := []control{}
	for _, of := range p.manifest.segments {
		base := strings.TrimPrefix(of.topic, p.manifest.prefix)
		if base == "gate.registry" || base == "gate.bundles" {
			for _, read := range p.readSegment(of) {
				records = append(records, control{read, base == "gate.bundles"})
			}
		}
	}
	sort.SliceStable(records, func(i, j int) bool {
		one, other := records[i], records[j]
		if one.record.timestamp != other.record.timestamp {
			return one.record.timestamp < other.record.timestamp
		}
		return !one.isBundle && other.isBundle
	})
	byID := map[string]ed25519.PublicKey{}
	for _, root := range roots {
		byID[keyid(root)] = root
	}
	signers := map[string]signer{}
	counts := map[string]bool{}
	for _, each := range records {
		opened, err := openEnvelope(each.record.value)
		if err != nil {
			continue
		}
		fields, err := parseObject(opened.payload)
		if err != nil {
			continue
		}
		kind, spec := bundleTypes[opened.kind], fields
		if !each.isBundle {
			kind, spec = "", fieldsOf(fields["spec"])
			if opened.kind == entryType {
				kind = text(fields["kind"])
			}
			delete(fields, "change")
			if fields["installations"] == nil {
				delete(fields, "installations")
			}
		}
		revision, numbered := whole(fields["revision"])
		written, err := canonicalize(fields)
		if kind == "" || spec == nil || !numbered || err != nil {
			continue
		}
		if len(roots) > 0 && !mayCount(opened, kind, byID, signers, each.record.timestamp) {
			continue
		}
		name := fmt.Sprintf("%s/%s", kind, text(fields["id"]))
		admit(signers, kind, name, spec)
		hash := "sha256:" + hashHex(written)
		if each.isBundle {
			counts[kind+" "+hash] = true
		} else {
			counts[fmt.Sprintf("%s@%d %s", name, revision, hash)] = true
		}
		counts[fmt.Sprintf("%s revision %d", name, revision)] = true
		counts[fmt.Sprintf("%s@%d revision %d", name, revision, revision)] = true
	}
	for name, where := range used {
		if !counts[name] {
			p.report("policy_unsigned", "%s rests on %s, of which no control record counts", where, name)
		}
	}
}

func mayCount(opened *envelope, kind string, roots map[string]ed25519.PublicKey, signers map[string]signer, at int64) bool {
	for number, id := range opened.keyids {
		key := roots[id]
		if kind != "approver" {
			by, known := signers[id]
			if !known || !maySign(by, kind, at) {
				continue
			}
			key = by.key
		}
		if key != nil && ed25519.Verify(key, opened.signed, opened.signatures[number]) {
			return true
		}
	}
	return false
}

func maySign(by signer, kind string, at int64) bool {
	if strings.HasPrefix(by.owner, "delegate/") {
		return kind == "freeze"
	}
	if active, stated := by.spec["active"].(bool); stated && !active {
		return false
	}
	if until, stated := by.spec["valid_until"].(string); stated {
		end, err := time.Parse(time.RFC3339, until)
		if err != nil || at >= end.UnixMilli() {
			return false
		}
	}
	for _, signs := range list(by.spec["signs"]) {
		if signs == kind {
			return true
		}
	}
	return false
}

func admit(signers map[string]signer, kind, owner string, spec object) {
	keys := []any{}
	switch {
	case kind == "approver":
		keys = []any{spec["public_key"]}
		for id, by := range signers {
			if by.owner == owner {
				delete(signers, id)
			}
		}
	case kind == "delegate" && len(list(spec["roles"])) > 0:
		for _, each := range list(spec["keys"]) {
			keys = append(keys, fieldsOf(each)["public_key"])
		}
	}
	for _, each := range keys {
		if key, err := readKey(text(each)); err == nil {
			signers[keyid(key)] = signer{owner, key, spec}
		}
	}
}
