-- Times (…_at, idle_since) are nanoseconds since 1970, UTC. Whatever has structure
-- (tail, args, argv, attachments, command, ask, decision, detail) is JSON. Empty is
-- an empty text; NULL stands for what is not there.

CREATE TABLE tasks (
    id            TEXT PRIMARY KEY,
    title         TEXT NOT NULL,
    context       TEXT NOT NULL,
    docs_path     TEXT NOT NULL,
    capability_id TEXT NOT NULL,
    status        TEXT NOT NULL CHECK (status IN ('todo', 'in_progress', 'review', 'done')),
    error         TEXT NOT NULL,
    tail          TEXT NOT NULL,
    created_by    TEXT NOT NULL,
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL
) STRICT;
CREATE INDEX tasks_by_age ON tasks (created_at, id);
CREATE INDEX tasks_by_status ON tasks (status, created_at, id);

-- AUTOINCREMENT: a number that people have seen never names another execution,
-- even after retention has removed the newest one.
CREATE TABLE executions (
    number          INTEGER PRIMARY KEY AUTOINCREMENT,
    id              TEXT NOT NULL UNIQUE,
    task_id         TEXT NOT NULL REFERENCES tasks (id),
    agent_id        TEXT NOT NULL,
    capability_id   TEXT NOT NULL,
    parent_id       TEXT REFERENCES executions (id) ON DELETE SET NULL,
    status          TEXT NOT NULL CHECK (status IN
                        ('queued', 'running', 'cancelling', 'succeeded', 'failed', 'timed_out', 'cancelled')),
    activity        TEXT NOT NULL DEFAULT '',
    idle_since      INTEGER,
    reason          TEXT NOT NULL DEFAULT '',
    error           TEXT NOT NULL DEFAULT '',
    resets_at       INTEGER,
    mode            TEXT NOT NULL,
    once            INTEGER NOT NULL,
    session_ref     TEXT NOT NULL,
    fork            INTEGER NOT NULL,
    dir             TEXT NOT NULL,
    pid             INTEGER NOT NULL DEFAULT 0,
    tmux_session    TEXT NOT NULL DEFAULT '',
    exit_code       INTEGER,
    signal          TEXT NOT NULL DEFAULT '',
    processes_ended INTEGER NOT NULL DEFAULT 0,
    processes_left  INTEGER NOT NULL DEFAULT 0,
    requested_by    TEXT NOT NULL,
    created_at      INTEGER NOT NULL,
    started_at      INTEGER,
    ended_at        INTEGER,
    heartbeat_at    INTEGER,
    log_bytes       INTEGER NOT NULL DEFAULT 0,
    log_lines       INTEGER NOT NULL DEFAULT 0,
    logs_deleted    INTEGER NOT NULL DEFAULT 0,
    input_tokens    INTEGER NOT NULL DEFAULT 0,
    output_tokens   INTEGER NOT NULL DEFAULT 0,
    cost_usd        REAL NOT NULL DEFAULT 0,
    idempotency_key TEXT,
    resumes         INTEGER NOT NULL,
    cursor_seq      INTEGER NOT NULL DEFAULT 0,
    cursor_offset   INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE UNIQUE INDEX executions_by_key ON executions (idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX executions_active ON executions (number)
    WHERE status IN ('queued', 'running', 'cancelling');
CREATE INDEX executions_by_task ON executions (task_id);
CREATE INDEX executions_by_agent ON executions (agent_id);
CREATE INDEX executions_by_status ON executions (status);
CREATE INDEX executions_by_parent ON executions (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX executions_by_end ON executions (logs_deleted, ended_at) WHERE ended_at IS NOT NULL;

-- What was asked for. It never changes and may be long, so it stands apart from the
-- row that is written with every bit of progress.
CREATE TABLE requests (
    number      INTEGER PRIMARY KEY REFERENCES executions (number) ON DELETE CASCADE,
    args        TEXT NOT NULL,
    prompt      TEXT NOT NULL,
    argv        TEXT NOT NULL,
    attachments TEXT NOT NULL
) STRICT;

-- A sender's id is unique within its execution, as it is for the runner.
CREATE TABLE commands (
    seq          INTEGER PRIMARY KEY AUTOINCREMENT,
    execution_id TEXT NOT NULL REFERENCES executions (id) ON DELETE CASCADE,
    id           TEXT NOT NULL,
    command      TEXT NOT NULL,
    state        TEXT NOT NULL CHECK (state IN ('pending', 'accepted', 'handed', 'refused', 'undelivered')),
    how          TEXT NOT NULL,
    error        TEXT NOT NULL,
    created_at   INTEGER NOT NULL,
    settled_at   INTEGER,
    UNIQUE (execution_id, id)
) STRICT;
CREATE INDEX commands_open ON commands (execution_id, state, seq) WHERE state IN ('pending', 'accepted');

CREATE TABLE approvals (
    seq          INTEGER PRIMARY KEY AUTOINCREMENT,
    id           TEXT NOT NULL UNIQUE,
    execution_id TEXT NOT NULL REFERENCES executions (id) ON DELETE CASCADE,
    ask_id       TEXT NOT NULL,
    kind         TEXT NOT NULL,
    text         TEXT NOT NULL,
    ask          TEXT NOT NULL,
    state        TEXT NOT NULL CHECK (state IN ('open', 'decided', 'timed_out', 'withdrawn')),
    decision     TEXT NOT NULL,
    created_at   INTEGER NOT NULL,
    decided_at   INTEGER,
    UNIQUE (execution_id, ask_id)
) STRICT;
CREATE INDEX approvals_open ON approvals (seq) WHERE state = 'open';

CREATE TABLE audit (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    at      INTEGER NOT NULL,
    actor   TEXT NOT NULL,
    action  TEXT NOT NULL,
    object  TEXT NOT NULL,
    allowed INTEGER NOT NULL,
    detail  TEXT NOT NULL
) STRICT;
CREATE INDEX audit_by_object ON audit (object, id);
CREATE INDEX audit_by_actor ON audit (actor, id);
CREATE INDEX audit_by_age ON audit (at);
