// A verifier of audit packages that follows docs/audit-package.md, with the standard library alone.
//
// sluice-audit [--root-key KEY]… [--head-key KEY]… [--only-selected] [--gone] FILE…: a line of JSON for each file.
// Exit code 0: all hold; 1: something is wrong with one; 2: one could not be read.
package main

import (
	"crypto/ed25519"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
)

type keys []ed25519.PublicKey

func (k *keys) String() string { return fmt.Sprint(len(*k)) }

func (k *keys) Set(encoded string) error {
	key, err := readKey(encoded)
	*k = append(*k, key)
	return err
}

type verdict struct {
	File     string   `json:"file"`
	Intact   bool     `json:"intact"`
	Findings []string `json:"findings"`
}

var inputTopics = map[string]bool{
	"gate.actions.proposed": true, "gate.outcomes": true, "gate.reviews": true, "gate.mandates": true,
	"gate.memory.writes.proposed": true, "gate.memory.retrievals.proposed": true, "gate.memory.retrievals.reported": true,
}

func main() {
	var roots, heads keys
	flag.Var(&roots, "root-key", "public root key of the policy, base64")
	flag.Var(&heads, "head-key", "public key whose tree heads count, base64")
	only := flag.Bool("only-selected", false, "it may hold selected records alone")
	gone := flag.Bool("gone", false, "inputs may have been gone when it was made")
	flag.Parse()
	code := 0
	for _, file := range flag.Args() {
		findings, err := check(file, roots, heads, *only, *gone)
		result := verdict{file, err == nil && len(findings) == 0, append([]string{}, findings...)}
		if err != nil {
			result.Findings = []string{err.Error()}
			code = 2
		} else if !result.Intact && code == 0 {
			code = 1
		}
		line, _ := json.Marshal(result)
		fmt.Println(string(line))
	}
	os.Exit(code)
}

func check(file string, roots, headKeys keys, only, gone bool) ([]string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	p, err := openPack(data)
	if err != nil {
		return nil, err
	}
	p.checkOrder()
	heads := p.checkHeads(headKeys)
	if p.manifest.onlySelected && !only {
		p.report("incomplete", "it holds selected records alone")
	}
	used := map[string]string{}
	chosen := int64(0)
	for _, of := range p.manifest.parts {
		l := p.checkPartition(of, heads, inputTopics, used)
		l.finish(gone)
		chosen += l.chosen
	}
	if chosen == 0 {
		p.report("incomplete", "no record is selected")
	}
	p.checkPolicy(roots, used)
	return p.findings, nil
}

// checkOrder sees that segments and partitions ascend, and that each segment belongs to a partition.
func (p *pack) checkOrder() {
	numbers := map[int64]bool{}
	before := int64(-1)
	for _, each := range p.manifest.parts {
		if each.number <= before {
			p.report("package_damaged", "partition %d follows on %d", each.number, before)
		}
		before, numbers[each.number] = each.number, true
	}
	for at, each := range p.manifest.segments {
		base := strings.TrimPrefix(each.topic, p.manifest.prefix)
		if !shared[base] && !numbers[each.partition] {
			p.report("package_damaged", "%s is of no partition of the package", each.name)
		}
		if at == 0 {
			continue
		}
		last := p.manifest.segments[at-1]
		ascends := each.topic > last.topic || each.topic == last.topic && (each.partition > last.partition || each.partition == last.partition && each.first > last.last)
		if !ascends {
			p.report("package_damaged", "%s does not follow on %s", each.name, last.name)
		}
	}
}
