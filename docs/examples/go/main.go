// A tool that runs only if the gate allows this very call: docs/gateway.md, with the standard library alone.
//
// guarded AGENT TOOL SESSION…: one call in each session; a line of JSON for each. SLUICE_URL and SLUICE_API_KEY name
// the gateway. Outcomes are not signed here; the client for TypeScript shows how.
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"time"
)

const (
	deadline = 60 * time.Second
	pause    = 200 * time.Millisecond
)

// Gate is one agent's way to the gate. Any number of goroutines may use it.
type Gate struct {
	url, apiKey, agent string
	client             *http.Client
}

// The fields of a verdict that a caller needs.
type verdict struct {
	ActionID     string `json:"action_id"`
	AgentID      string `json:"agent_id"`
	SessionID    string `json:"session_id"`
	Verdict      string
	BlockReason  string
	RowsReserved json.Number `json:"rows_reserved"`
	Error        struct{ Code, Message string }
}

// NewGate makes a way to the gate. It follows no redirect: the API key goes nowhere else.
func NewGate(url, apiKey, agent string) *Gate {
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Gate{url, apiKey, agent, &http.Client{CheckRedirect: stay}}
}

// Guarded runs the tool if the gate allows it, with a copy of what was judged, and reports what it did. An error says
// why it did not run, or what it or its report met.
func (gate *Gate) Guarded(ctx context.Context, session, tool string, parameters map[string]any,
	run func(map[string]any) (string, error)) (string, error) {
	actionID := rand.Text()
	judged, err := json.Marshal(parameters)
	if err != nil {
		return "", err
	}
	status, decided, err := gate.post(ctx, "/v1/evaluate", actionID, map[string]any{
		"action_id": actionID, "agentId": gate.agent, "sessionId": session, "toolName": tool,
		"parameters": json.RawMessage(judged), "mode": "high_stakes", "deadline_ms": deadline.Milliseconds(),
	})
	if err != nil {
		return "", err
	}
	if decided.Verdict == "" {
		return "", fmt.Errorf("%d %s: %s", status, decided.Error.Code, decided.Error.Message)
	}
	if decided.Verdict != "allowed" || status != http.StatusOK {
		return "", fmt.Errorf("%s: %s", decided.Verdict, decided.BlockReason)
	}
	if decided.ActionID != actionID || decided.AgentID != gate.agent || decided.SessionID != session {
		return "", errors.New("the verdict is on another action")
	}
	var given map[string]any
	if err := json.Unmarshal(judged, &given); err != nil {
		return "", err
	}
	result, failed := run(given)
	outcome := map[string]any{
		"action_id": actionID, "session_id": session, "reported_by": gate.agent,
		"rows_affected": decided.RowsReserved,
	}
	if failed != nil {
		outcome["error"] = fmt.Sprintf("%T", failed)
	}
	status, _, unreported := gate.post(ctx, "/v1/outcomes", "outcome-"+actionID, outcome)
	if unreported == nil && status >= 300 {
		unreported = fmt.Errorf("the outcome was answered with %d", status)
	}
	return result, errors.Join(failed, unreported)
}

// post sends the same bytes under the same key until they are answered: they are decided once.
func (gate *Gate) post(ctx context.Context, path, key string, record map[string]any) (int, *verdict, error) {
	body, err := json.Marshal(record)
	if err != nil {
		return 0, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	for {
		status, answered, err := gate.try(ctx, path, key, body)
		switch {
		case err == nil && status < 500 && status != http.StatusTooManyRequests && status != http.StatusRequestTimeout:
			var found verdict
			if err := json.Unmarshal(answered, &found); err != nil {
				return status, nil, fmt.Errorf("%d: %w", status, err)
			}
			return status, &found, nil
		case err == nil:
			err = fmt.Errorf("%d %s", status, answered)
		}
		select {
		case <-ctx.Done():
			return 0, nil, fmt.Errorf("not decided in time: %w", err)
		case <-time.After(pause):
		}
	}
}

func (gate *Gate) try(ctx context.Context, path, key string, body []byte) (int, []byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, gate.url+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("X-Mnemom-Api-Key", gate.apiKey)
	request.Header.Set("Idempotency-Key", key)
	request.Header.Set("Content-Type", "application/json")
	response, err := gate.client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	answered, err := io.ReadAll(response.Body)
	return response.StatusCode, answered, err
}

func main() {
	agent, tool := os.Args[1], os.Args[2]
	gate := NewGate(os.Getenv("SLUICE_URL"), os.Getenv("SLUICE_API_KEY"), agent)
	lines := json.NewEncoder(os.Stdout)
	for _, session := range os.Args[3:] {
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
