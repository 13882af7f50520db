-- Remembered decisions. What a rule is about (an execution, a session, a directory, a
-- person) may be forgotten before it, so nothing is referenced.
CREATE TABLE rules (
    seq          INTEGER PRIMARY KEY AUTOINCREMENT,
    id           TEXT NOT NULL UNIQUE,
    decision     TEXT NOT NULL CHECK (decision IN ('allow', 'deny')),
    scope        TEXT NOT NULL CHECK (scope IN ('run', 'session', 'project', 'user')),
    subject      TEXT NOT NULL,
    tool         TEXT NOT NULL,
    match        TEXT NOT NULL,
    message      TEXT NOT NULL,
    expires_at   INTEGER,
    created_by   TEXT NOT NULL,
    created_at   INTEGER NOT NULL,
    last_used_at INTEGER,
    uses         INTEGER NOT NULL
) STRICT;
CREATE INDEX rules_by_subject ON rules (subject, seq);
CREATE INDEX rules_by_expiry ON rules (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX rules_by_scope ON rules (scope);

ALTER TABLE approvals ADD COLUMN risk TEXT NOT NULL DEFAULT '';
