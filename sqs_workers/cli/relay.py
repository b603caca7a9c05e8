"""``relay``: sends what an outbox holds."""

from __future__ import annotations

from sqs_workers.cli.databases import engine_of
from sqs_workers.cli.needs import click
from sqs_workers.cli.output import json_option, say, show_json
from sqs_workers.cli.sqs import Account, account_options, url_of

__all__ = ["relay_command"]


@click.command("relay")
@click.option("--dsn-env", default="DATABASE_URL", show_default=True, help="Variable that holds the DSN.")
@click.option(
    "--table", "table_name", default="outbox_messages", show_default=True, help="Table of the outbox."
)
@click.option("--queue-prefix", default="", help="Put before the names of queues.")
@click.option("--drain", is_flag=True, help="Send what is there, then end.")
@account_options
@json_option
def relay_command(
    dsn_env: str,
    table_name: str,
    queue_prefix: str,
    drain: bool,
    region: str | None,
    endpoint_url: str | None,
    profile: str | None,
    as_json: bool,
) -> int:
    """Send the messages of an outbox to SQS until SIGTERM or SIGINT. Several relays may run at once.

    The DSN comes from a variable, so that it stands in no list of processes.

    \b
    Example:
      DATABASE_URL=postgresql://app@127.0.0.1/app sqs-workers relay --drain
    """
    from sqs_workers.app.logs import configure
    from sqs_workers.app.spec import Logging
    from sqs_workers.sql.outbox import Outbox
    from sqs_workers.sql.relay import Relay
    from sqs_workers.sql.tables import Tables
    from sqs_workers.transport import Boto3Transport

    engine = engine_of(dsn_env, "--dsn-env")
    configure(Logging())
    client = Account(region, endpoint_url, profile).client()
    tables = Tables(
        processed_events=f"{table_name}_events",
        outbox_messages=table_name,
        idempotent_calls=f"{table_name}_calls",
        schedule_slots=f"{table_name}_slots",
    )
    relay = Relay(
        Outbox(engine, tables=tables),
        transport=Boto3Transport(lambda: client),
        resolve_url=lambda name: url_of(client, name if "://" in name else queue_prefix + name),
    )
    click.get_current_context().call_on_close(relay.close)
    if not drain:
        relay.run()
        return 0
    sent = relay.drain()
    if as_json:
        show_json({"settled": sent})
    else:
        say(f"Settled {sent} message(s)")
    return 0
