-- Amounts that are added up are whole billionths of a dollar (…_nanos): sums stay exact.

ALTER TABLE executions ADD COLUMN not_before INTEGER; -- queued until then: parked
ALTER TABLE executions ADD COLUMN cap_usd REAL NOT NULL DEFAULT 0;
ALTER TABLE executions ADD COLUMN extended_usd REAL NOT NULL DEFAULT 0; -- part of cap_usd
ALTER TABLE executions ADD COLUMN cap_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE executions ADD COLUMN budget_warning TEXT NOT NULL DEFAULT '';

-- What each execution spent on each calendar day of the budgets' time zone. It does not
-- go with its execution: what was spent today counts even where nothing is kept.
CREATE TABLE spending (
    execution_id TEXT NOT NULL,
    day          TEXT NOT NULL,
    agent_id     TEXT NOT NULL,
    who          TEXT NOT NULL,
    usd_nanos    INTEGER NOT NULL,
    tokens       INTEGER NOT NULL,
    PRIMARY KEY (execution_id, day)
) STRICT, WITHOUT ROWID;
CREATE INDEX spending_by_user ON spending (day, who, usd_nanos);
CREATE INDEX spending_by_agent ON spending (day, agent_id, usd_nanos);

-- subject: the execution's id, who, or the agent's id. day: empty for a run.
CREATE TABLE budget_extensions (
    seq       INTEGER PRIMARY KEY AUTOINCREMENT,
    key       TEXT UNIQUE,
    scope     TEXT NOT NULL CHECK (scope IN ('run', 'user', 'agent')),
    subject   TEXT NOT NULL,
    day       TEXT NOT NULL,
    usd_nanos INTEGER NOT NULL,
    added_by  TEXT NOT NULL,
    at        INTEGER NOT NULL
) STRICT;
CREATE INDEX budget_extensions_by_day ON budget_extensions (day, scope, subject);

-- Each warning is given once. agent_id: the agent whose configuration names the cap.
CREATE TABLE budget_warnings (
    day          TEXT NOT NULL,
    scope        TEXT NOT NULL CHECK (scope IN ('run', 'user', 'agent')),
    subject      TEXT NOT NULL,
    agent_id     TEXT NOT NULL,
    execution_id TEXT NOT NULL, -- the one that spent it
    text         TEXT NOT NULL,
    at           INTEGER NOT NULL,
    PRIMARY KEY (day, scope, subject, agent_id)
) STRICT, WITHOUT ROWID;
