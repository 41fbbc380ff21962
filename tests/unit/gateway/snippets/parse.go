// Seed 002's Go snippet, and a program that parses each line of its input with it.
package main

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"
)

type CheckpointVerdicts struct {
	Front     string `json:"front"`
	Autonomy  string `json:"autonomy"`
	Integrity string `json:"integrity"`
	Back      string `json:"back"`
}

func ParseMnemomVerdict(headerValue string) CheckpointVerdicts {
	out := CheckpointVerdicts{}
	for _, pair := range strings.Split(headerValue, ";") {
		kv := strings.SplitN(strings.TrimSpace(pair), "=", 2)
		if len(kv) != 2 {
			continue
		}
		switch kv[0] {
		case "front":
			out.Front = kv[1]
		case "autonomy":
			out.Autonomy = kv[1]
		case "integrity":
			out.Integrity = kv[1]
		case "back":
			out.Back = kv[1]
		}
	}
	return out
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if err := json.NewEncoder(os.Stdout).Encode(ParseMnemomVerdict(lines.Text())); err != nil {
			panic(err)
		}
	}
}
