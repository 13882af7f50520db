package claude_test

import "github.com/threadmill/threadmill/adapters/adaptertest"

func noise() adaptertest.Noise {
	return adaptertest.Noise{
		Lines: []string{
			`{"type":"result","subtype":"success","num_turns":"many"}`, `{"type":"result"}`, `{"type":"result"}`,
			`{"type":"control_request","request_id":"a","request":{"subtype":"can_use_tool"}}`,
			`{"type":"control_request","request_id":"b","request":{"subtype":"no_such"}}`,
			`{"type":"control_cancel_request","request_id":"never asked"}`, `{"type":"control_response","response":{"request_id":"x"}}`,
			`{"type":"system","subtype":"init","session_id":7}`, `{"type":"system","subtype":["init"]}`,
			`{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t","name":"Bash","input":[1]}]}}`,
			`{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":{}}]},"tool_use_result":7}`,
			`{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t"}]}}`,
			`{"type":"stream_event","event":{"type":"content_block_delta","index":9,"delta":{"text":"nowhere"}}}`,
			"{\"type\":\"assistant\",\"message\":{\"id\":\"m\",\"content\":[{\"type\":\"text\",\"text\":\"survived \xff\",\"unknown\":{\"a\":[1]}}]}}",
		},
		Want: "survived",
	}
}
