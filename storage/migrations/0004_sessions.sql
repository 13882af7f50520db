-- Browsers: a link signs one in, once; a session is what it then has. Both are known
-- by their hashes only, so whoever reads the database cannot sign in with it.
CREATE TABLE links (
    hash       BLOB PRIMARY KEY,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE sessions (
    hash       BLOB PRIMARY KEY,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
