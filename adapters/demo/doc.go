// Package demo is a scripted agent and the adapter that drives it. The agent is a real
// child process (the hidden subcommand demo-agent) that does what the message's script
// says: it answers, streams, runs tools, asks, fails, crashes. It is for trials, tests
// and load, and it lets everybody see what the service does without an account
// anywhere. The package knows nothing about the service but the contract of adapters.
//
// # Script
//
// A message is a script; its steps are separated by newlines or semicolons (`\;` is a
// semicolon in a text, and so is one in the quotes of a command). [Help] lists the words. A message without any of them is
// answered with "You said: …" after a moment, and so is a step that makes no sense.
//
// A message that comes while a turn runs is folded into it: its script runs at once,
// between two steps or while a step waits, in the order in which messages came. An
// interrupt ends the turn within the running step; a running tool is killed.
//
// What was said is remembered per session in DIR/ID.jsonl (0600), one JSON string a
// line. DIR is the adapter's option state_dir, or threadmill-demo below XDG_STATE_HOME
// or ~/.local/state of the job's environment.
//
// # Protocol
//
// Both directions are JSON lines. A request to the agent carries a number, req, that
// its reply echoes; the reply tells that it was taken, or why not:
//
//	{"req":1,"op":"message","id":"m1","text":"say hello"}
//	{"req":2,"op":"interrupt"}
//	{"req":3,"op":"decide","id":"ask2","allow":true,"input":{"command":"ls"}}
//	{"req":4,"op":"decide","id":"ask3","answers":{"Which one?":"A"}}
//	{"req":5,"op":"decide","id":"ask4","text":"too dangerous","stop":true}
//
// The agent tells its session once, then turns and what happens in them:
//
//	{"type":"hello","session":"6ba7b810-…"}
//	{"type":"turn","state":"started","message":"m1"}
//	{"type":"reply","req":1}
//	{"type":"text","id":"text1","text":"hello"}
//	{"type":"text","id":"text2","text":"line 1\n","more":true}
//	{"type":"thought","id":"thought3","text":"…"}
//	{"type":"tool","id":"tool4","tool":{"name":"run","action":"command_run","status":"running",…}}
//	{"type":"ask","id":"ask5","tool":{…}}
//	{"type":"ask","id":"ask6","questions":[{"text":"Which one?","choices":[{"label":"A"}]}]}
//	{"type":"withdraw","id":"ask6"}
//	{"type":"usage","usage":{"inputTokens":0,"outputTokens":100,"costUsd":0.02}}
//	{"type":"turn","state":"done","message":"m1"}
//	{"type":"error","reason":"agent_error","text":"…"}
//
// Streamed text comes as parts marked "more" under one id. Text of up to 64 KiB is
// then told once more as a whole; of longer text the parts are all there is. After an
// error the agent exits. At the end of its input it finishes what it was told, with
// nobody to answer its questions, and exits with 0.
package demo

// hint is what the agent adds to a plain answer.
const hint = "I am a scripted demo agent. Try: `say hello; tool ls; approve date; ask Tea? | yes | no; lines 5 1s`"

// Help explains the words of the script to people.
func Help() string { return help }

const help = `A message is a script. Its steps are separated by newlines or ";" (write "\;" for a
semicolon in a text). Anything else is answered with "You said: …".

  say TEXT                 answers TEXT
  think TEXT               shows TEXT as its reasoning
  lines N [EVERY]          streams N numbered lines, one EVERY so often (lines 20 500ms)
  sleep DURATION           waits (1m30s, or a number of seconds)
  tool COMMAND             runs a command without asking; no shell is involved
  approve COMMAND          asks first; the command may be changed by who approves
  ask QUESTION | A | B     asks a question, with choices
  edit FILE TEXT           adds TEXT as a line to FILE, inside the working directory
  usage USD TOKENS         adds to what the run has spent
  limit DURATION           fails with a usage limit that resets then
  fail TEXT                fails with TEXT
  crash                    dies by a signal
  ignore-term              ignores SIGTERM from now on
  fork [DURATION]          leaves a process behind that left the group and the session
  flood BYTES              writes that much text (10M, 64k) as fast as it is read
  env                      prints its environment
  recall                   lists what was said in this session
`
