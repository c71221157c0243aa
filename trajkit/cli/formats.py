"""`trajkit formats`."""

from __future__ import annotations

import click


@click.command("formats")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def command(as_json: bool) -> None:
    """List the log formats that can be read.

    \b
    Example:
      trajkit formats --json
    """
    from trajkit.adapters import all_adapters
    from trajkit.model import to_json_text

    for adapter in all_adapters():
        if as_json:
            fields = ("name", "title", "domains", "unit")
            click.echo(to_json_text({name: getattr(adapter, name) for name in fields}))
        else:
            click.echo(f"{adapter.name:<16}{adapter.title} ({', '.join(adapter.domains)})")
