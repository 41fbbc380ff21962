package main

import (
	"fmt"
	"sort"
	"strings"
	"time"
)

// named is an input as a ledger record states it.
type named struct {
	digest    string
	timestamp int64
	key       []byte
	hasKey    bool
	record    string
}

type place struct {
	topic  string
	offset int64
}

type link struct{ hash, previous string }

// ledger checks one partition.
type ledger struct {
	pack   *pack
	part   part
	chain  map[int64]link
	inputs map[place]named
	used   map[string]string
	count  int64
	chosen int64
	first  int64
	timed  bool // the record before those of the selection has a time that its hash covers
}

var answered = map[string]bool{
	"gate.actions.proposed": true, "gate.memory.writes.proposed": true, "gate.memory.retrievals.proposed": true,
}
var shared = map[string]bool{"gate.registry": true, "gate.bundles": true, "gate.tree_heads": true}

// checkPartition checks a partition's chain, trees and inputs, and notes in `used` what its records name of policy.
func (p *pack) checkPartition(of part, heads []head, inputTopics map[string]bool, used map[string]string) ledger {
	l := ledger{p, of, map[int64]link{}, map[place]named{}, used, 0, 0, 0, false}
	later := []segment{}
	for _, each := range p.manifest.segments {
		base := strings.TrimPrefix(each.topic, p.manifest.prefix)
		switch {
		case each.partition != of.number || shared[base]:
		case inputTopics[base]:
			later = append(later, each)
		default:
			before := int64(0)
			for _, read := range p.readSegment(each) {
				before = l.takeRecord(read, before)
			}
		}
	}
	l.checkChain(heads)
	for _, each := range later {
		for _, read := range p.readSegment(each) {
			l.takeInput(read, strings.TrimPrefix(each.topic, p.manifest.prefix))
		}
	}
	return l
}

// takeRecord checks one record by itself; it returns its number.
func (l *ledger) takeRecord(read record, before int64) int64 {
	l.count++
	where := fmt.Sprintf("%s/%d/%d", read.topic, read.partition, read.offset)
	fields, err := parseObject(read.value)
	if err != nil {
		l.pack.report("unreadable", "%s: %v", where, err)
		return before
	}
	sequence, numbered := whole(fields["sequence"])
	partition, _ := whole(fields["partition"])
	own, previous := text(fields["event_hash"]), text(fields["prev_hash"])
	body := object{}
	for name, value := range fields {
		if name != "event_hash" {
			body[name] = value
		}
	}
	written, err := canonicalize(body)
	if err != nil || !numbered || "sha256:"+hashHex(written) != own {
		l.pack.report("altered", "%s: its event_hash is not its own", where)
	}
	if partition != l.part.number {
		l.pack.report("moved", "%s: it says that it is of partition %d", where, partition)
	}
	if sequence <= before {
		l.pack.report("out_of_order", "%s: record %d follows record %d", where, sequence, before)
	}
	if session, ok := fields["session_id"].(string); ok && session != string(read.key) {
		l.pack.report("key_mismatch", "%s: the key is %q, the session %q", where, read.key, session)
	}
	if _, twice := l.chain[sequence]; twice {
		l.pack.report("inserted", "%s: there are two records %d", where, sequence)
	}
	l.chain[sequence] = link{own, previous}
	l.noteSelected(fields, read, sequence)
	l.noteUsed(fields, where)
	l.noteInput(fields, read, where)
	return sequence
}

func (l *ledger) noteSelected(fields object, read record, sequence int64) {
	chosen := false
	switch l.pack.manifest.by {
	case "since":
		since, _ := whole(l.pack.manifest.value)
		decided, good := moment(fields["decided_at"])
		chosen = read.timestamp >= since || good && decided >= since
		if sequence == l.part.completeFrom-1 {
			l.timed = good
		}
	case "decision":
		for name, value := range fields {
			chosen = chosen || strings.HasSuffix(name, "_id") && value == l.pack.manifest.value
		}
	default:
		chosen = fields[l.pack.manifest.by+"_id"] == l.pack.manifest.value
	}
	if chosen {
		l.chosen++
		if l.first == 0 || sequence < l.first {
			l.first = sequence
		}
	}
}

// moment reads a time of the ledger, ms since 1970.
func moment(value any) (int64, bool) {
	at, err := time.Parse(time.RFC3339, text(value))
	return at.UnixMilli(), err == nil
}

func (l *ledger) noteUsed(fields object, where string) {
	for _, kind := range []string{"bundle", "quality_bundle"} {
		if name := text(fields[kind+"_hash"]); name != "" {
			l.used[kind+" "+name] = where
		}
	}
	for key, value := range fieldsOf(fields["registry_hashes"]) {
		l.used[key+" "+text(value)] = where
	}
	if fields["schema"] == "sluice/policy_in_force/v1" {
		for _, changes := range []string{"added", "replaced"} {
			for _, change := range list(fieldsOf(fields[changes])["named"]) {
				l.used[fmt.Sprintf("%s revision %v", text(fieldsOf(change)["entry"]), fieldsOf(change)["now"])] = where
			}
		}
	}
}

func (l *ledger) noteInput(fields object, read record, where string) {
	source := fieldsOf(fields["input"])
	if source == nil {
		return
	}
	offset, _ := whole(source["offset"])
	partition, _ := whole(source["partition"])
	timestamp, timed := whole(source["timestamp"])
	if !timed {
		timestamp = -1
	}
	if partition != l.part.number {
		l.pack.report("moved", "%s: its input lies in partition %d", where, partition)
	}
	schema := fields["schema"]
	hasKey := schema != "sluice/dead_letter/v1" && schema != "sluice/input_refused/v1" && schema != "sluice/quarantine_evicted/v1"
	next := named{text(source["digest"]), timestamp, read.key, hasKey, where}
	at := place{text(source["topic"]), offset}
	before, known := l.inputs[at]
	if known && (before.digest != next.digest || before.timestamp != next.timestamp) {
		l.pack.report("input_altered", "%s: it says of its input what %s does not", where, before.record)
	}
	if !known || !before.hasKey {
		l.inputs[at] = next
	}
}

// checkChain goes from record 1 to the last, through hashes where records are not there, and compares the trees.
func (l *ledger) checkChain(heads []head) {
	hashes := []byte{}
	if l.part.hashes != "" {
		hashes = l.pack.member(fmt.Sprintf("hashes/%d.bin", l.part.number))
	}
	number := l.part.number
	var grown tree
	before := "GENESIS"
	compare := func() {
		for _, each := range heads {
			if number < int64(len(each.sizes)) && each.sizes[number] == grown.size && each.roots[number] != grown.root() {
				l.pack.report("rewritten", "partition %d: records up to %d are not those that head %d signs", number, grown.size, each.number)
			}
		}
	}
	compare()
	for sequence := int64(1); sequence <= l.part.size; sequence++ {
		next, there := l.chain[sequence]
		if sequence < l.part.completeFrom {
			stated := fmt.Sprintf("sha256:%x", hashes[32*(sequence-1):32*sequence])
			if !there {
				next = link{stated, before}
			} else if next.hash != stated {
				l.pack.report("altered", "partition %d: record %d is not that of the list of hashes", number, sequence)
			}
		} else if !there {
			l.pack.report("missing", "partition %d: record %d", number, sequence)
			return
		}
		if next.previous != before {
			l.pack.report("broken_link", "partition %d: record %d does not link to the one before", number, sequence)
		}
		leaf, good := readHash(next.hash)
		if !good {
			l.pack.report("altered", "partition %d: record %d has no hash", number, sequence)
			return
		}
		grown.add(leafHash(leaf[:]))
		before = next.hash
		compare()
	}
	for sequence := range l.chain {
		if sequence < 1 || sequence > l.part.size {
			l.pack.report("inserted", "partition %d: record %d lies behind the end", number, sequence)
		}
	}
}

func (l *ledger) takeInput(read record, base string) {
	at := place{base, read.offset}
	stated, known := l.inputs[at]
	where := fmt.Sprintf("%s/%d/%d", read.topic, read.partition, read.offset)
	switch {
	case !known && answered[base] && read.offset < l.pack.manifest.offsetOf("decided", base, read.partition):
		l.pack.report("unanswered", "%s", where)
	case !known:
		l.pack.report("inserted", "%s: no record decides this input", where)
	case "sha256:"+hashHex(read.value) != stated.digest:
		l.pack.report("input_altered", "%s: %s states another digest", where, stated.record)
	case stated.timestamp >= 0 && stated.timestamp != read.timestamp:
		l.pack.report("input_altered", "%s: %s states another time", where, stated.record)
	case stated.hasKey && string(stated.key) != string(read.key):
		l.pack.report("input_altered", "%s: %s has another key", where, stated.record)
	}
	delete(l.inputs, at)
}

// finish compares counts, and says which inputs are missing.
func (l *ledger) finish(takesGone bool) {
	of := l.part
	if l.count != of.records || l.chosen != of.selected {
		l.pack.report("incomplete", "partition %d: %d records, %d selected", of.number, l.count, l.chosen)
	}
	m := l.pack.manifest
	due := int64(1)
	if m.onlySelected {
		due = of.size + 1
	} else if m.by == "since" && of.completeFrom > 1 {
		due = of.size + 1
		if l.first > 0 {
			due = l.first
		}
		if _, there := l.chain[of.completeFrom-1]; !there || !l.timed {
			l.pack.report("incomplete", "partition %d: record %d is not there, or has no time", of.number, of.completeFrom-1)
		}
	}
	if of.completeFrom != due {
		l.pack.report("incomplete", "partition %d: complete from %d, not from %d", of.number, of.completeFrom, due)
	}
	absent := map[string]int64{}
	left := []place{}
	for at := range l.inputs {
		absent[at.topic]++
		left = append(left, at)
	}
	sort.Slice(left, func(i, j int) bool { return left[i].offset < left[j].offset })
	same := true
	for topic := range fieldsOf(m.fields["gone"]) {
		same = same && m.offsetOf("gone", topic, of.number) == absent[topic]
	}
	for topic, count := range absent {
		same = same && m.offsetOf("gone", topic, of.number) == count
	}
	if !same {
		l.pack.report("incomplete", "partition %d: other inputs are absent than the manifest states", of.number)
	}
	if same && takesGone {
		return
	}
	for _, at := range left {
		l.pack.report("input_missing", "%s:%d:%d, which %s decides", at.topic, of.number, at.offset, l.inputs[at].record)
	}
}
