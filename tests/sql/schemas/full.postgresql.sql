CREATE TABLE processed_events (
    consumer VARCHAR(100) NOT NULL,
    event_id VARCHAR(255) NOT NULL,
    payload_hash VARCHAR(80) NOT NULL,
    processed_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_processed_events PRIMARY KEY (consumer, event_id)
);

CREATE INDEX ix_processed_events_processed_at ON processed_events (processed_at);

CREATE TABLE outbox_messages (
    id BIGSERIAL NOT NULL,
    outbox_id VARCHAR(36) NOT NULL,
    state VARCHAR(10) DEFAULT 'pending' NOT NULL,
    queue_name VARCHAR(255) NOT NULL,
    group_id VARCHAR(128),
    deduplication_id VARCHAR(128),
    job_name VARCHAR(255) DEFAULT '' NOT NULL,
    body TEXT NOT NULL,
    attributes TEXT NOT NULL,
    delay_seconds INTEGER,
    attempts INTEGER DEFAULT '0' NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    not_before TIMESTAMP WITH TIME ZONE,
    leased_until TIMESTAMP WITH TIME ZONE,
    lease VARCHAR(36),
    settled_at TIMESTAMP WITH TIME ZONE,
    message_id VARCHAR(100),
    reason VARCHAR(500),
    PRIMARY KEY (id),
    CONSTRAINT uq_outbox_messages_outbox_id UNIQUE (outbox_id)
);

CREATE INDEX ix_outbox_messages_group ON outbox_messages (queue_name, group_id, state, id);

CREATE INDEX ix_outbox_messages_settled_at ON outbox_messages (settled_at);

CREATE INDEX ix_outbox_messages_state ON outbox_messages (state, id);

CREATE TABLE idempotent_calls (
    operation VARCHAR(100) NOT NULL,
    call_key VARCHAR(255) NOT NULL,
    state VARCHAR(10) NOT NULL,
    request_hash VARCHAR(80) NOT NULL,
    answer TEXT,
    attempts INTEGER DEFAULT '0' NOT NULL,
    owner VARCHAR(36),
    leased_until TIMESTAMP WITH TIME ZONE,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_idempotent_calls PRIMARY KEY (operation, call_key)
);

CREATE INDEX ix_idempotent_calls_state ON idempotent_calls (operation, state, updated_at);
