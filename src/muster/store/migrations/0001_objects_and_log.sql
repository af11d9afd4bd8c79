-- The present (muster_obj) and the past (muster_log), as in the SQLite file: a log row holds what its write replaced.
-- muster_mark is the one revision counter. Its row is locked while a group commits, so revisions become visible in order and
-- without holes. muster_compaction is apart from it: dropping old history must not wait for writers.
CREATE TABLE muster_obj (
    cluster text COLLATE "C" NOT NULL,
    resource text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    rev bigint NOT NULL,
    value bytea,
    PRIMARY KEY (cluster, resource, key)
);

CREATE TABLE muster_log (
    rev bigint PRIMARY KEY,
    cluster text COLLATE "C" NOT NULL,
    resource text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    op smallint NOT NULL,
    previous_rev bigint,
    previous_value bytea,
    value bytea,
    origin bigint NOT NULL
);

CREATE TABLE muster_mark (revision bigint NOT NULL);
INSERT INTO muster_mark VALUES (1);

CREATE TABLE muster_compaction (compacted bigint NOT NULL);
INSERT INTO muster_compaction VALUES (0);
