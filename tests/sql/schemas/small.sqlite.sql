CREATE TABLE processed_events (
    consumer VARCHAR(100) NOT NULL,
    event_id VARCHAR(255) NOT NULL,
    payload_hash VARCHAR(80) NOT NULL,
    processed_at DATETIME NOT NULL,
    PRIMARY KEY (consumer, event_id)
);

CREATE TABLE outbox_messages (
    id INTEGER PRIMARY KEY,
    outbox_id VARCHAR(36) NOT NULL UNIQUE,
    state VARCHAR(10) DEFAULT 'pending' NOT NULL,
    queue_name VARCHAR(255) NOT NULL,
    group_id VARCHAR(128),
    job_name VARCHAR(255) DEFAULT '' NOT NULL,
    body TEXT NOT NULL,
    attributes TEXT NOT NULL,
    created_at DATETIME NOT NULL,
    settled_at DATETIME,
    message_id VARCHAR(100)
);
