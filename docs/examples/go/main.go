// A tool that runs only if the gate allows this very call: the contract of docs/clients.md, with franz-go.
//
// guarded SERVERS PREFIX AGENT TOOL SESSION…: one call in each session; a line of JSON for each.
// AGENT_KEY names the PEM file of an agent that signs, SLUICE_POLICY__INSTALLATION the installation it signs for.
package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	actions     = "gate.actions.proposed"
	outcomes    = "gate.outcomes"
	verdicts    = "gate.verdicts"
	deadLetters = "gate.dead_letters"
	deadline    = 60 * time.Second
	clocksApart = time.Minute // how far this machine's clock and the broker's may differ
)

// Gate is one agent's way to the gate. Any number of goroutines may use it.
type Gate struct {
	prefix, agent, installation string
	key                         ed25519.PrivateKey // nil for an agent that does not sign
	client                      *kgo.Client

	mutex   sync.Mutex
	waiting map[string]*waiter       // by the ce_id of an answer
	early   map[string][]*kgo.Record // answers that came before the coordinates of their input
	placing int
}

// Who waits for the answer to an input, which the broker has at a place.
type waiter struct {
	found         chan *kgo.Record
	asked         map[string]any
	place, digest string
}

// The fields of an answer that a caller needs.
type answer struct {
	Verdict      string
	BlockReason  *string
	RowsReserved int `json:"rows_reserved"`
	Code, Path   string
}

// NewGate connects. It reads the answers from a little before now on: from their end, one could be missed.
// Idempotence, acks=all and the murmur2 partitioner are the defaults of franz-go.
func NewGate(servers, prefix, agent, installation string, key ed25519.PrivateKey) (*Gate, error) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(servers, ",")...),
		kgo.ConsumeTopics(prefix+verdicts, prefix+deadLetters),
		kgo.ConsumeResetOffset(kgo.NewOffset().AfterMilli(time.Now().Add(-clocksApart).UnixMilli())),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxWait(100*time.Millisecond),
		kgo.ProducerLinger(0),
	)
	if err != nil {
		return nil, err
	}
	gate := &Gate{
		prefix: prefix, agent: agent, installation: installation, key: key, client: client,
		waiting: map[string]*waiter{}, early: map[string][]*kgo.Record{},
	}
	go gate.read()
	return gate, nil
}

// Guarded runs the tool if the gate allows it, and reports what it did. An error says why it did not run.
func (gate *Gate) Guarded(ctx context.Context, session, tool string, parameters map[string]any,
	run func(map[string]any) (string, error)) (string, error) {
	actionID := rand.Text()
	decided, err := gate.decide(ctx, session, map[string]any{
		"action_id": actionID, "agent_id": gate.agent, "session_id": session, "toolName": tool,
		"parameters": parameters, "mode": "high_stakes", "deadline_ms": deadline.Milliseconds(),
	})
	if err != nil {
		return "", err
	}
	result, failed := run(parameters)
	outcome := map[string]any{
		"action_id": actionID, "session_id": session, "reported_by": gate.agent,
		"rows_affected": decided.RowsReserved,
	}
	if failed != nil {
		outcome["error"] = fmt.Sprintf("%T", failed)
	}
	_, unreported := gate.publish(ctx, outcomes, session, outcome)
	return result, errors.Join(failed, unreported)
}

func (gate *Gate) decide(ctx context.Context, session string, action map[string]any) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	gate.place(+1)
	placed, err := gate.publish(ctx, actions, session, action)
	if err != nil {
		gate.place(-1)
		return nil, err
	}
	at := fmt.Sprintf("%s:%d:%d", actions, placed.Partition, placed.Offset)
	ids := []string{"verdict:" + at, "dead_letter:" + at}
	digest := sha256.Sum256(placed.Value)
	found := gate.expect(ids, action, at, "sha256:"+hex.EncodeToString(digest[:]))
	gate.place(-1)
	defer gate.forget(ids)
	select {
	case <-ctx.Done():
		return nil, errors.New("not decided in time")
	case record := <-found:
		return allowed(record)
	}
}

func allowed(record *kgo.Record) (*answer, error) {
	var found answer
	if err := json.Unmarshal(record.Value, &found); err != nil {
		return nil, err
	}
	if strings.HasSuffix(record.Topic, deadLetters) {
		return nil, fmt.Errorf("%s at %s", found.Code, found.Path)
	}
	if found.Verdict != "allowed" {
		reason := ""
		if found.BlockReason != nil {
			reason = *found.BlockReason
		}
		return nil, fmt.Errorf("%s: %s", found.Verdict, reason)
	}
	return &found, nil
}

func (gate *Gate) publish(ctx context.Context, topic, session string, record map[string]any) (*kgo.Record, error) {
	value, err := json.Marshal(record)
	if err != nil {
		return nil, err
	}
	sent := &kgo.Record{Topic: gate.prefix + topic, Key: []byte(session), Value: value}
	if gate.key != nil {
		said := signature(gate.key, gate.installation, sent.Topic, session, value)
		sent.Headers = []kgo.RecordHeader{{Key: "sluice-signature", Value: []byte(said)}}
	}
	return gate.client.ProduceSync(ctx, sent).First()
}

// What an agent that signs puts beside each input. The topic is the whole name.
func signature(key ed25519.PrivateKey, installation, topic, session string, value []byte) string {
	public := sha256.Sum256(key.Public().(ed25519.PublicKey))
	keyID, nonce := hex.EncodeToString(public[:]), rand.Text()
	at := strconv.FormatInt(time.Now().UnixMilli(), 10)
	signed := []byte("SluiceInputV1")
	for _, part := range []string{installation, topic, session, keyID, at, nonce, string(value)} {
		signed = fmt.Appendf(signed, " %d %s", len(part), part)
	}
	written := base64.StdEncoding.EncodeToString(ed25519.Sign(key, signed))
	return fmt.Sprintf("v1 %s %s %s %s", keyID, at, nonce, written)
}

func keyIn(file string) (ed25519.PrivateKey, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%s: no PEM", file)
	}
	found, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	key, ok := found.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%s: no Ed25519 key", file)
	}
	return key, nil
}

func (gate *Gate) read() {
	for {
		fetches := gate.client.PollFetches(context.Background())
		if fetches.IsClientClosed() {
			return
		}
		fetches.EachError(func(topic string, partition int32, err error) { log.Print(topic, partition, err) })
		fetches.EachRecord(gate.take)
	}
}

func (gate *Gate) take(record *kgo.Record) {
	gate.mutex.Lock()
	defer gate.mutex.Unlock()
	for _, header := range record.Headers {
		if header.Key != "ce_id" {
			continue
		}
		id := string(header.Value)
		if waiting, ok := gate.waiting[id]; ok {
			waiting.take(record)
		}
		if gate.placing > 0 {
			gate.early[id] = append(gate.early[id], record)
		}
	}
}

// take takes the first record that answers; a stranger's, which does not, is passed over.
func (waiting *waiter) take(record *kgo.Record) {
	if len(waiting.found) == 0 && waiting.answers(record.Value) {
		waiting.found <- record
	}
}

// Whether a record is the answer to this very input. A dead letter cannot say what it could not read.
func (waiting *waiter) answers(value []byte) bool {
	var seen struct {
		Input struct {
			Topic             string
			Partition, Offset int64
			Digest            string
		}
		ActionID  *string `json:"action_id"`
		AgentID   *string `json:"agent_id"`
		SessionID *string `json:"session_id"`
	}
	if json.Unmarshal(value, &seen) != nil {
		return false // no worker writes that
	}
	names := map[string]*string{"action_id": seen.ActionID, "agent_id": seen.AgentID, "session_id": seen.SessionID}
	for name, said := range names {
		if said != nil && *said != waiting.asked[name] {
			return false
		}
	}
	place := fmt.Sprintf("%s:%d:%d", seen.Input.Topic, seen.Input.Partition, seen.Input.Offset)
	return place == waiting.place && seen.Input.Digest == waiting.digest
}

func (gate *Gate) place(change int) {
	gate.mutex.Lock()
	defer gate.mutex.Unlock()
	gate.placing += change
	if gate.placing == 0 {
		clear(gate.early)
	}
}

func (gate *Gate) expect(ids []string, asked map[string]any, place, digest string) <-chan *kgo.Record {
	gate.mutex.Lock()
	defer gate.mutex.Unlock()
	waiting := &waiter{make(chan *kgo.Record, 1), asked, place, digest}
	for _, id := range ids {
		gate.waiting[id] = waiting
		for _, record := range gate.early[id] {
			waiting.take(record)
		}
	}
	return waiting.found
}

func (gate *Gate) forget(ids []string) {
	gate.mutex.Lock()
	defer gate.mutex.Unlock()
	for _, id := range ids {
		delete(gate.waiting, id)
	}
}

func main() {
	servers, prefix, agent, tool := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	key, err := keyIn(os.Getenv("AGENT_KEY"))
	if err != nil {
		log.Fatal(err)
	}
	gate, err := NewGate(servers, prefix, agent, os.Getenv("SLUICE_POLICY__INSTALLATION"), key)
	if err != nil {
		log.Fatal(err)
	}
	defer gate.client.Close()
	lines := json.NewEncoder(os.Stdout)
	for _, session := range os.Args[5:] {
		told := map[string]any{"session": session}
		result, err := gate.Guarded(context.Background(), session, tool, map[string]any{"table": "orders"},
			func(given map[string]any) (string, error) { return fmt.Sprint("read ", given["table"]), nil })
		if err != nil {
			told["refused"] = err.Error()
		} else {
			told["result"] = result
		}
		if err := lines.Encode(told); err != nil {
			log.Fatal(err)
		}
	}
}
