"""Scripted episodes on programs: settings, slow jobs, full screens, mistakes, and two failures."""

from __future__ import annotations

import gzip
import tarfile
from pathlib import Path

from terminal_script import Script, text_of, turn, write

# --- environment variables, modes, archives ------------------------------------------------------

SHOW_SCRIPT = """#!/bin/sh
echo "mode=${APP_MODE:-unset} port=${APP_PORT:-unset}"
"""


def prepare_settings(home: Path) -> None:
    write(home / "app/show.sh", SHOW_SCRIPT)
    write(home / "app/notes.txt", "keep me\n")


def check_settings(home: Path) -> bool:
    if not (home / "app.tar.gz").is_file():
        return False
    with tarfile.open(home / "app.tar.gz") as archive:
        names = archive.getnames()
    return "app/show.sh" in names and (home / "app/show.sh").stat().st_mode & 0o777 == 0o750


ENVIRONMENT_AND_MODES = Script(
    task=(
        "app/show.sh prints two settings from the environment. Run it with APP_MODE=staging and "
        "APP_PORT=8081 exported, keep both in app/settings.env, give show.sh the mode 750, and "
        "pack app into app.tar.gz."
    ),
    prepare=prepare_settings,
    turns=[
        turn("Set the variables.", "export APP_MODE=staging\n", "export APP_PORT=8081\n"),
        turn("Are they set?", 'echo "$APP_MODE:$APP_PORT"\n'),
        turn("Run the program.", "app/show.sh\n", "echo $?\n"),
        turn("It may not be executed yet.", "chmod 750 app/show.sh && app/show.sh\n"),
        turn(
            "Keep the settings in a file, forget them, read them again.",
            "printf 'APP_MODE=%s\\nAPP_PORT=%s\\n' $APP_MODE $APP_PORT > app/settings.env\n",
            "unset APP_MODE APP_PORT; app/show.sh\n",
            "set -a; . app/settings.env; set +a; app/show.sh\n",
        ),
        turn(
            "Who may read what?",
            "chmod 000 app/notes.txt; cat app/notes.txt\n",
            "stat -c '%a %n' app/*\n",
        ),
        turn("Give it back and pack.", "chmod 640 app/notes.txt\n", "tar -czf app.tar.gz app\n"),
        turn(
            "Unpack elsewhere and compare.",
            "mkdir copy && tar -xzf app.tar.gz -C copy\n",
            "tar -tzf app.tar.gz | sort\n",
            "diff -r app copy/app && echo same\n",
        ),
    ],
    check=check_settings,
    last_words="Done: settings kept, mode set, archive made.",
)

# --- slow programs: a progress bar, waits, jobs, an interrupt -------------------------------------

RESIZE_PROGRAM = """import sys
import time

n_images = 24
for done in range(n_images + 1):
    bar = "#" * done + "." * (n_images - done)
    sys.stdout.write(f"\\r[{bar}] {100 * done // n_images:3d}%")
    sys.stdout.flush()
    time.sleep(0.25)
with open("done.txt", "w") as out:
    out.write(f"{n_images} images\\n")
print(f"\\nresized {n_images} images")
"""

SLOW_JOBS = Script(
    task="Run resize.py to its end and say in result.txt how many images it resized.",
    prepare=lambda home: write(home / "resize.py", RESIZE_PROGRAM),
    turns=[
        turn("Start it.", ("python3 resize.py\n", 2.0)),
        turn("Still running.", ("", 2.0)),
        turn("Wait for the rest.", ("", 4.0)),
        turn("A job in the background and a loop in front.", "sleep 40 &\n", "jobs\n"),
        turn("Count while it sleeps.", ("for i in 1 2 3 4 5; do echo tick $i; sleep 1; done\n", 2)),
        turn("Wait until the loop ends.", ("", 4.5)),
        turn("This would take too long: interrupt it.", ("sleep 300\n", 1.0), ("C-c", 0.5)),
        turn("End the job.", "kill %1\n", "\n"),
        turn("Start clean.", "clear\n"),
        turn("Keep the number.", "cut -d ' ' -f 1 done.txt > result.txt; cat result.txt\n"),
        turn("Is anything still running?", "jobs\n", ("", 0.5)),
    ],
    check=lambda home: text_of(home / "result.txt") == "24\n",
    last_words="24 images were resized.",
)

# --- programs that redraw the whole screen -------------------------------------------------------

GUIDE = "".join(
    f"Chapter {chapter}\n" + "".join(f"  rule {chapter}.{rule}\n" for rule in range(1, 13))
    for chapter in range(1, 8)
)
COUNTER_PROGRAM = """import curses


def run(screen):
    value = 0
    while True:
        screen.erase()
        screen.border()
        screen.addstr(1, 4, "COUNTER")
        screen.addstr(3, 4, f"value: {value}")
        screen.addstr(5, 4, "[+] more   [-] less   [q] quit")
        screen.refresh()
        key = screen.getkey()
        if key == "q":
            return value
        value += {"+": 1, "-": -1}.get(key, 0)


print("left at", curses.wrapper(run))
"""


def prepare_screens(home: Path) -> None:
    write(home / "guide.txt", GUIDE)
    write(home / "todo.txt", "write draft\nread draft\nsend it\n")
    write(home / "counter.py", COUNTER_PROGRAM)


FULL_SCREEN = Script(
    task=(
        "Find in guide.txt the rule that follows 5.3, add it as a line to the end of todo.txt, "
        "and make the first line of todo.txt say 'write final'. Then count to 2 in counter.py."
    ),
    prepare=prepare_screens,
    turns=[
        turn("Read the guide.", "wc -l guide.txt\n", "less guide.txt\n"),
        turn("The next page.", "Space"),
        turn("Search.", "/rule 5.3\n"),
        turn("Leave the pager.", "q"),
        turn("Edit the list.", ("vi todo.txt\n", 1.0)),
        turn("Change the first line, add one at the end.", ":1s/draft/final/\n", "Gorule 5.4"),
        turn("Save.", "Escape", ":wq\n"),
        turn("Read it back.", "cat todo.txt\n"),
        turn("Now the counter.", ("python3 counter.py\n", 1.0)),
        turn("Three up, one down.", "+++", "-"),
        turn("Quit.", "q"),
    ],
    check=lambda home: text_of(home / "todo.txt") == "write final\nread draft\nsend it\nrule 5.4\n",
    last_words="todo.txt is edited, the counter stood at 2.",
)

# --- a program typed in, that fails, is corrected, and prints more than a screen ------------------

WORDS_PROGRAM = """import sys

counts = {}
for line in open(sys.argv[1]):
    for word in line.split():
        counts[word] = counts[word] + 1
for word, count in sorted(counts.items()):
    print(count, word)
"""
POEM = "the rain in the lane\nand the grain in the rain\n"


WORD_COUNT = Script(
    task=(
        "Write count.py, which prints how often each word occurs in a file, sorted by word, and "
        "put its output for poem.txt into words.txt."
    ),
    prepare=lambda home: write(home / "poem.txt", POEM),
    turns=[
        turn("Read the poem.", "cat -A poem.txt\n"),
        turn("Type the program.", (f"cat > count.py <<'EOF'\n{WORDS_PROGRAM}EOF\n", 1.0)),
        turn("Run it.", "python3 count.py poem.txt\n"),
        turn(
            "A word seen for the first time has no count yet.",
            "sed -i 's/= counts\\[word\\] + 1/= counts.get(word, 0) + 1/' count.py\n",
            "python3 count.py poem.txt\n",
        ),
        turn("Keep it.", "python3 count.py poem.txt > words.txt\n", "wc words.txt\n"),
        turn(
            "Does it hold for a longer file?",
            "seq -f 'n%g' 1 45 > many.txt; python3 count.py many.txt\n",
        ),
        turn("Compare with the usual tools.", "tr ' ' '\\n' < poem.txt | sort | uniq -c\n"),
    ],
    check=lambda home: (
        text_of(home / "words.txt") == "1 and\n1 grain\n2 in\n1 lane\n2 rain\n4 the\n"
    ),
    last_words="words.txt holds the counts.",
)

# --- two runs that fail --------------------------------------------------------------------------


def prepare_ledger(home: Path) -> None:
    rows = [f"2026-04-{day:02d},{day * 37 % 101}.{day:02d}\n" for day in range(1, 31)]
    packed = gzip.compress("".join(["day,amount\n", *rows, "total,1503.65\n"]).encode(), mtime=0)
    (home / "backup").mkdir(parents=True)
    (home / "backup/ledger.csv.gz").write_bytes(packed[:150])


DAMAGED_ARCHIVE = Script(
    task="Write the number in the total row of backup/ledger.csv.gz to total.txt.",
    prepare=prepare_ledger,
    turns=[
        turn("Unpack the last lines.", "zcat backup/ledger.csv.gz | tail -n 2\n"),
        turn("Is the archive whole?", "gzip -t backup/ledger.csv.gz; echo $?\n"),
        turn(
            "Keep what can be read.",
            "zcat backup/ledger.csv.gz > part.csv 2> errors.txt; wc -l part.csv\n",
            "cat errors.txt\n",
        ),
        turn("Does the total row appear?", "grep -c total part.csv\n", "tail -n 1 part.csv\n"),
        turn("Is there another copy?", "find . -name '*ledger*'\n"),
    ],
    check=lambda home: text_of(home / "total.txt") == "1503.65\n",
    last_words="The archive ends before the total row and there is no other copy. I stop here.",
    gives_up=True,
)


def prepare_heights(home: Path) -> None:
    write(home / "heights.csv", "name,cm\nA,150\nB,160\nC,170\nD,180\n")


WRONG_MEAN = Script(
    task="Write the mean of the column cm of heights.csv to mean.txt.",
    prepare=prepare_heights,
    turns=[
        turn("Look at the file.", "cat heights.csv\n"),
        turn(
            "Sum the second column over the lines.",
            "awk -F , '{s += $2} END {print s / NR}' heights.csv > mean.txt\n",
        ),
        turn("Read it back.", "cat mean.txt\n"),
    ],
    check=lambda home: text_of(home / "mean.txt") == "165\n",
    last_words="The mean is in mean.txt.",
)

EPISODES = {
    "damaged-archive": DAMAGED_ARCHIVE,
    "environment-and-modes": ENVIRONMENT_AND_MODES,
    "full-screen": FULL_SCREEN,
    "slow-jobs": SLOW_JOBS,
    "word-count": WORD_COUNT,
    "wrong-mean": WRONG_MEAN,
}
