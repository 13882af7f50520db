package claude

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// maxLine is the longest line that is taken: a picture that was read is some megabytes.
const maxLine = 64 << 20

// What the CLI says. Fields are those that are used; numbers are float64 where some
// version writes fractions.
type (
	evInit struct {
		SessionID string `json:"session_id"`
		Model     string `json:"model"`
		Version   string `json:"claude_code_version"`
		Mode      string `json:"permissionMode"`
		Servers   []struct {
			Name   string `json:"name"`
			Status string `json:"status"`
		} `json:"mcp_servers"`
	}
	evState struct {
		State string `json:"state"` // running, requires_action, idle
	}
	evLifecycle struct {
		UUID  string `json:"command_uuid"`
		State string `json:"state"` // queued, started, completed, cancelled
	}
	evAssistant struct {
		Parent  string `json:"parent_tool_use_id"`
		Error   string `json:"error"`
		Message struct {
			ID      string  `json:"id"`
			Model   string  `json:"model"`
			Content []block `json:"content"`
		} `json:"message"`
	}
	evUser struct {
		UUID    string `json:"uuid"`
		Replay  bool   `json:"isReplay"`
		Parent  string `json:"parent_tool_use_id"`
		Message struct {
			Content json.RawMessage `json:"content"` // text or blocks
		} `json:"message"`
		Result json.RawMessage `json:"tool_use_result"`
	}
	evStream struct {
		Parent string `json:"parent_tool_use_id"`
		Event  struct {
			Type    string `json:"type"`
			Index   int    `json:"index"`
			Message struct {
				ID string `json:"id"`
			} `json:"message"`
			Block block `json:"content_block"`
			Delta struct {
				Type     string `json:"type"`
				Text     string `json:"text"`
				Thinking string `json:"thinking"`
			} `json:"delta"`
		} `json:"event"`
	}
	evAsk struct {
		RequestID string `json:"request_id"`
		Request   struct {
			Subtype   string          `json:"subtype"`
			Tool      string          `json:"tool_name"`
			Input     json.RawMessage `json:"input"`
			ToolUseID string          `json:"tool_use_id"`
			Text      string          `json:"description"`
			Blocked   string          `json:"blocked_path"`
			Why       string          `json:"decision_reason"`
			AgentID   string          `json:"agent_id"`
		} `json:"request"`
	}
	evCancelAsk struct {
		RequestID string `json:"request_id"`
	}
	evReply struct {
		Response struct {
			RequestID string `json:"request_id"`
			Subtype   string `json:"subtype"`
			Error     string `json:"error"`
		} `json:"response"`
	}
	evTasks struct {
		Tasks []struct {
			ID string `json:"task_id"`
		} `json:"tasks"`
	}
	evTaskEnd struct {
		ID      string `json:"task_id"`
		Status  string `json:"status"`
		Summary string `json:"summary"`
	}
	evTaskStart struct {
		ID        string `json:"task_id"`
		ToolUseID string `json:"tool_use_id"`
	}
	evProgress struct {
		Parent string `json:"parent_tool_use_id"`
	}
	evRetry struct {
		Attempt float64 `json:"attempt"`
		Max     float64 `json:"max_retries"`
		DelayMS float64 `json:"retry_delay_ms"`
		Status  float64 `json:"error_status"`
		Error   string  `json:"error"`
	}
	evRateLimit struct {
		Info struct {
			Status      string  `json:"status"` // allowed, allowed_warning, rejected
			ResetsAt    float64 `json:"resetsAt"`
			Type        string  `json:"rateLimitType"`
			Utilization float64 `json:"utilization"`
			Overage     bool    `json:"isUsingOverage"`
		} `json:"rate_limit_info"`
	}
	evResult struct {
		Subtype  string           `json:"subtype"`
		IsError  bool             `json:"is_error"`
		Turns    float64          `json:"num_turns"`
		Terminal string           `json:"terminal_reason"`
		Status   float64          `json:"api_error_status"`
		Startup  string           `json:"startup_failure_reason"`
		Result   string           `json:"result"`
		Errors   []string         `json:"errors"`
		Cost     float64          `json:"total_cost_usd"`
		Totals   map[string]spent `json:"modelUsage"`
		Since    map[string]spent `json:"model_usage_since_last_result"`
	}
	evNote struct {
		Content string `json:"content"`
	}
)

// block is a piece of a message's content.
type block struct {
	Type     string          `json:"type"`
	Text     string          `json:"text"`
	Thinking string          `json:"thinking"`
	ID       string          `json:"id"`
	Name     string          `json:"name"`
	Input    json.RawMessage `json:"input"`
	ForID    string          `json:"tool_use_id"`
	Content  json.RawMessage `json:"content"`
	IsError  bool            `json:"is_error"`
}

// spent is what one model was used for.
type spent struct {
	Input      float64 `json:"inputTokens"`
	Output     float64 `json:"outputTokens"`
	CacheRead  float64 `json:"cacheReadInputTokens"`
	CacheWrite float64 `json:"cacheCreationInputTokens"`
	Cost       float64 `json:"costUSD"`
}

var errNotJSON = errors.New("it is not JSON")

// parse reads a line. What is valid but means nothing here is nil: newer versions say
// more than is known, and none of it is needed to understand the rest.
func parse(line []byte) (event any, err error) {
	var head struct {
		Type    any `json:"type"`
		Subtype any `json:"subtype"`
	}
	if !json.Valid(line) {
		return nil, errNotJSON
	}
	_ = json.Unmarshal(line, &head) // what is no object has no type
	kind, _ := head.Type.(string)
	if sub, ok := head.Subtype.(string); ok && kind == "system" {
		kind += "/" + sub
	}
	event = eventFor(kind)
	if event == nil {
		return nil, nil
	}
	if err := json.Unmarshal(line, event); err != nil {
		return nil, fmt.Errorf("read a line of type %s: %w", kind, err)
	}
	return event, nil
}

func eventFor(kind string) any {
	if sub, ok := strings.CutPrefix(kind, "system/"); ok {
		return systemEvent(sub)
	}
	switch kind {
	case "assistant":
		return &evAssistant{}
	case "user":
		return &evUser{}
	case "stream_event":
		return &evStream{}
	case "result":
		return &evResult{}
	case "control_request":
		return &evAsk{}
	case "control_cancel_request":
		return &evCancelAsk{}
	case "control_response":
		return &evReply{}
	case "command_lifecycle":
		return &evLifecycle{}
	case "rate_limit_event":
		return &evRateLimit{}
	case "tool_progress":
		return &evProgress{}
	}
	return nil
}

func systemEvent(subtype string) any {
	switch subtype {
	case "init":
		return &evInit{}
	case "session_state_changed":
		return &evState{}
	case "background_tasks_changed":
		return &evTasks{}
	case "task_started":
		return &evTaskStart{}
	case "task_notification":
		return &evTaskEnd{}
	case "api_retry":
		return &evRetry{}
	case "informational":
		return &evNote{}
	}
	return nil
}

// What is said to the CLI.
type (
	userLine struct {
		Type     string  `json:"type"`
		UUID     string  `json:"uuid"`
		Message  chat    `json:"message"`
		Parent   *string `json:"parent_tool_use_id"`
		Priority string  `json:"priority,omitempty"`
	}
	chat struct {
		Role    string `json:"role"`
		Content any    `json:"content"` // a string or blocks
	}
	requestLine struct {
		Type      string  `json:"type"`
		RequestID string  `json:"request_id"`
		Request   request `json:"request"`
	}
	request struct {
		Subtype string `json:"subtype"`
		TaskID  string `json:"task_id,omitempty"`
	}
	responseLine struct {
		Type     string   `json:"type"`
		Response response `json:"response"`
	}
	response struct {
		Subtype   string   `json:"subtype"`
		RequestID string   `json:"request_id"`
		Response  *verdict `json:"response,omitempty"`
		Error     string   `json:"error,omitempty"`
	}
	// verdict never carries the permission rules that the CLI suggests: those that are
	// not for the session alone are written into the repository or the user's settings.
	verdict struct {
		Behavior  string          `json:"behavior"`
		Input     json.RawMessage `json:"updatedInput,omitempty"`
		Message   string          `json:"message,omitempty"`
		Interrupt bool            `json:"interrupt,omitempty"`
	}
)

func encode(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("write a line for Claude Code: %w", err)
	}
	return b, nil
}
