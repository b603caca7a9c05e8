CREATE TABLE processed_events (
    consumer VARCHAR(100) NOT NULL,
    event_id VARCHAR(255) NOT NULL,
    payload_hash VARCHAR(80) NOT NULL,
    processed_at DATETIME(6) NOT NULL,
    PRIMARY KEY (consumer, event_id)
) ENGINE=InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE outbox_messages (
    id BIGINT AUTO_INCREMENT PRIMARY KEY,
    outbox_id VARCHAR(36) NOT NULL UNIQUE,
    state VARCHAR(10) DEFAULT 'pending' NOT NULL,
    queue_name VARCHAR(255) NOT NULL,
    group_id VARCHAR(128),
    job_name VARCHAR(255) DEFAULT '' NOT NULL,
    body LONGTEXT NOT NULL,
    attributes LONGTEXT NOT NULL,
    created_at DATETIME(6) NOT NULL,
    settled_at DATETIME(6),
    message_id VARCHAR(100)
) ENGINE=InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
