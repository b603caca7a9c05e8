CREATE TABLE processed_events (
    consumer VARCHAR(100) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    event_id VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    payload_hash VARCHAR(80) NOT NULL,
    processed_at DATETIME(6) NOT NULL,
    CONSTRAINT pk_processed_events PRIMARY KEY (consumer, event_id)
)ENGINE=InnoDB CHARSET=utf8mb4;

CREATE INDEX ix_processed_events_processed_at ON processed_events (processed_at);

CREATE TABLE outbox_messages (
    id BIGINT NOT NULL AUTO_INCREMENT,
    outbox_id VARCHAR(36) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    state VARCHAR(10) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT 'pending',
    queue_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    group_id VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    deduplication_id VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    job_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '',
    `body` LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    attributes LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    delay_seconds INTEGER,
    attempts INTEGER NOT NULL DEFAULT '0',
    created_at DATETIME(6) NOT NULL,
    not_before DATETIME(6),
    leased_until DATETIME(6),
    lease VARCHAR(36) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    settled_at DATETIME(6),
    message_id VARCHAR(100) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    reason VARCHAR(500),
    PRIMARY KEY (id),
    CONSTRAINT uq_outbox_messages_outbox_id UNIQUE (outbox_id)
)ENGINE=InnoDB CHARSET=utf8mb4;

CREATE INDEX ix_outbox_messages_group ON outbox_messages (queue_name, group_id, state, id);

CREATE INDEX ix_outbox_messages_settled_at ON outbox_messages (settled_at);

CREATE INDEX ix_outbox_messages_state ON outbox_messages (state, id);

CREATE TABLE idempotent_calls (
    operation VARCHAR(100) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    call_key VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    state VARCHAR(10) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    request_hash VARCHAR(80) NOT NULL,
    answer LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    attempts INTEGER NOT NULL DEFAULT '0',
    owner VARCHAR(36) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    leased_until DATETIME(6),
    created_at DATETIME(6) NOT NULL,
    updated_at DATETIME(6) NOT NULL,
    CONSTRAINT pk_idempotent_calls PRIMARY KEY (operation, call_key)
)ENGINE=InnoDB CHARSET=utf8mb4;

CREATE INDEX ix_idempotent_calls_state ON idempotent_calls (operation, state, updated_at);
