"""Record software-engineering episodes: mini-swe-agent with its deterministic model classes.

The agent, the environment and the file format are those of the package `mini-swe-agent` (2.4.6);
what the model answers is the script in `swe_episodes.py`. Each command really runs, in a small git
repository that is made new for each episode and that holds real bugs. A file is what the agent's
own `save` wrote (`mini-swe-agent-1.1`), in one of the three styles of message: `tool_call`, `text`
(a fenced block) and `responses`.

The package's local environment turns a carriage return into a newline before anybody can see it.
Episodes marked `pseudo_terminal` therefore run each command on a pseudo-terminal and keep its
bytes as they came, so that lines end in CR LF and a progress bar keeps its bare CR.

Needs git and a system Python 3.
"""

from __future__ import annotations

import argparse
import json
import os
import pty
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from swe_episodes import EPISODES, TEMPLATES, Script
from swe_repository import create

BOX = Path("/tmp/box")
REPOSITORY = BOX / "repo"
HOME = BOX / "repo-home"
PATH = "/usr/bin:/bin"
FENCE = "mswea_bash_command"


def leave_own_environment() -> None:
    """Empty this process's environment: the agent hands the whole of it to each command."""
    os.environ.clear()
    os.environ.update(
        {
            "PATH": PATH,
            "HOME": str(HOME),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "MSWEA_SILENT_STARTUP": "1",
            "MSWEA_GLOBAL_CONFIG_DIR": str(HOME / "mini"),
        }
    )


def answer(style: str, number: int, thought: str, commands: list[str]) -> dict[str, Any]:
    """Return one answer of the model, in the shape that the style's model class hands out."""
    if style == "text":
        from minisweagent.models.utils.actions_text import parse_regex_actions

        content = f"THOUGHT: {thought}\n\n```{FENCE}\n{commands[0]}\n```"
        parsed = parse_regex_actions(
            content, action_regex=rf"```{FENCE}\s*\n(.*?)\n```", format_error_template=""
        )
        return {"role": "assistant", "content": content, "extra": {"actions": parsed, "cost": 0.0}}
    actions = [
        {"command": command, "tool_call_id": f"call_{number}_{index}"}
        for index, command in enumerate(commands, 1)
    ]
    extra = {"actions": actions, "cost": 0.0}
    arguments = [json.dumps({"command": command}) for command in commands]
    if style == "tool_call":
        calls = [
            {
                "id": action["tool_call_id"],
                "type": "function",
                "function": {"name": "bash", "arguments": text},
            }
            for action, text in zip(actions, arguments, strict=True)
        ]
        return {"role": "assistant", "content": thought, "tool_calls": calls, "extra": extra}
    spoken = {"type": "output_text", "text": thought}
    output: list[dict[str, Any]] = [{"type": "message", "role": "assistant", "content": [spoken]}]
    output += [
        {
            "type": "function_call",
            "call_id": action["tool_call_id"],
            "name": "bash",
            "arguments": text,
        }
        for action, text in zip(actions, arguments, strict=True)
    ]
    return {"object": "response", "output": output, "extra": extra}


def make_model(script: Script) -> Any:
    """Return the deterministic model of the script's style; each answer gets the time it is asked.

    The package's constructors stamp all answers when they are made, long before the run.
    """
    from minisweagent.models import test_models

    kinds = {
        "text": test_models.DeterministicModel,
        "tool_call": test_models.DeterministicToolcallModel,
        "responses": test_models.DeterministicResponseAPIToolcallModel,
    }
    outputs = [
        answer(script.style, number, thought, commands)
        for number, (thought, commands) in enumerate(script.turns, 1)
    ]
    model = kinds[script.style](
        outputs=outputs,
        observation_template=TEMPLATES[script.template],
        cost_per_call=0.0,
    )
    ask = model.query

    def query(messages: list[dict[str, Any]], **options: Any) -> dict[str, Any]:
        message = ask(messages, **options)
        message["extra"]["timestamp"] = time.time()
        return message

    model.query = query
    return model


def make_environment(script: Script) -> Any:
    """Return the environment: the package's own, or one that runs commands on a terminal."""
    from minisweagent.environments.local import LocalEnvironment

    class PseudoTerminalEnvironment(LocalEnvironment):
        def execute(
            self, action: dict[str, Any], cwd: str = "", *, timeout: int | None = None
        ) -> dict[str, Any]:
            outer, inner = pty.openpty()
            process = subprocess.Popen(
                ["timeout", str(timeout or self.config.timeout), "sh", "-c", action["command"]],
                cwd=cwd or self.config.cwd,
                env=os.environ | self.config.env,
                stdin=subprocess.DEVNULL,
                stdout=inner,
                stderr=inner,
                start_new_session=True,
            )
            os.close(inner)
            pieces = []
            while True:
                try:
                    piece = os.read(outer, 65536)
                except OSError:  # the last writer is gone
                    break
                if not piece:
                    break
                pieces.append(piece)
            os.close(outer)
            text = b"".join(pieces).decode("utf-8", "replace")
            output = {"output": text, "returncode": process.wait(), "exception_info": ""}
            self._check_finished(output)
            return output

    kind = PseudoTerminalEnvironment if script.pseudo_terminal else LocalEnvironment
    return kind(
        cwd=str(REPOSITORY),
        env={"PAGER": "cat", "PYTHONDONTWRITEBYTECODE": "1"},
        timeout=script.timeout_seconds,
    )


def record(name: str, script: Script, target: Path) -> dict[str, Any]:
    """Run one episode, copy what `save` wrote to `target`, and return its `info`."""
    from minisweagent.agents.default import DefaultAgent

    create(REPOSITORY)
    saved = BOX / "runs" / f"{name}.traj.json"
    agent = DefaultAgent(
        make_model(script),
        make_environment(script),
        system_template=TEMPLATES["system_text" if script.style == "text" else "system"],
        instance_template=TEMPLATES["task"],
        step_limit=script.step_limit,
        cost_limit=0.0,
        output_path=saved,
    )
    agent.run(script.task)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(saved, target)
    return json.loads(target.read_text(encoding="utf-8"))["info"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out_dir", type=Path, help="gets one .traj.json file per episode")
    parser.add_argument("--only", choices=sorted(EPISODES), help="record this episode alone")
    arguments = parser.parse_args()
    out_dir = arguments.out_dir.absolute()
    HOME.mkdir(parents=True, exist_ok=True)
    leave_own_environment()
    for name, script in EPISODES.items():
        if arguments.only not in (None, name):
            continue
        info = record(name, script, out_dir / f"{name}.traj.json")
        n_calls = info["model_stats"]["api_calls"]
        print(f"{name}: {n_calls} steps, {info['exit_status']}", file=sys.stderr)
    for folder in (REPOSITORY, HOME, BOX / "runs"):
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
