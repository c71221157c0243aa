"""Scripted episodes on files: text tools, a database, a git merge, a build."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

from terminal_script import Script, text_of, turn, write

# --- files, pipes, grep, sed, awk ---------------------------------------------------------------


def prepare_access_log(home: Path) -> None:
    dice = random.Random(11)
    lines = []
    for second in range(0, 480, 8):
        client = f"192.0.2.{dice.choice([7, 7, 7, 19, 19, 23, 40, 58, 61, 77])}"
        page = dice.choice(["/", "/cart", "/cart/add", "/items/14", "/items/15", "/search?q=lamp"])
        status = dice.choice([200, 200, 200, 200, 304, 404, 500])
        clock = f"12/May/2026:09:{second // 60:02d}:{second % 60:02d} +0000"
        n_bytes = dice.randint(180, 9400)
        lines.append(f'{client} - - [{clock}] "GET {page} HTTP/1.1" {status} {n_bytes}\n')
    write(home / "logs/access.log", "".join(lines))


def check_access_report(home: Path) -> bool:
    lines = text_of(home / "logs/access.log").splitlines(keepends=True)
    errors = "".join(line for line in lines if line.split('" ')[1].startswith("500"))
    summary = text_of(home / "report/summary.txt")
    n_fine = sum(line.split('" ')[1].startswith("200") for line in lines)
    return text_of(home / "report/errors.log") == errors and f"{n_fine} 200" in summary


ACCESS_LOG = Script(
    task=(
        "logs/access.log is a web server log. Count the requests of each status code and find the "
        "three busiest clients, both into report/summary.txt. Put all lines with status 500 "
        "into report/errors.log, unchanged."
    ),
    prepare=prepare_access_log,
    turns=[
        turn("Look at the log first.", "ls logs\n", "wc -l logs/access.log\n"),
        turn("See how a line is laid out.", "head -n 3 logs/access.log\n"),
        turn("A place for the results.", "mkdir report\n", "cd report\n"),
        turn(
            "The status is the ninth field.",
            "awk '{print $9}' ../logs/access.log | sort | uniq -c | sort -rn\n",
        ),
        turn(
            "The client is the first field.",
            "awk '{print $1}' ../logs/access.log | sort | uniq -c | sort -rn | head -n 3\n",
        ),
        turn(
            "Both into one file.",
            "(awk '{print $9}' ../logs/access.log | sort | uniq -c | sort -rn; "
            "awk '{print $1}' ../logs/access.log | sort | uniq -c | sort -rn | head -n 3) "
            "> summary.txt\n",
        ),
        turn("Read it back.", "cat summary.txt\n", "wc -c summary.txt\n"),
        turn(
            "Now the lines with status 500.",
            "grep -E '\" 500 [0-9]+$' ../logs/access.log > errors.log\n",
            "cut -d '\"' -f 2 errors.log | sed -E 's/^GET //; s/ HTTP.*//' | sort | uniq -c\n",
        ),
        turn(
            "A copy must have the same digest.",
            "cp errors.log errors.bak && sha256sum errors.log errors.bak\n",
        ),
        turn("Remove the copy and look once more.", "rm errors.bak; ls\n", "cd ..\n"),
    ],
    check=check_access_report,
    last_words="Both files are written and checked.",
    ran_twice=True,
)

# --- sqlite through Python: state written, changed, read back; a corrected mistake ---------------

QUERY_PROGRAM = """import sqlite3
import sys

try:
    with sqlite3.connect(sys.argv[1]) as db:
        for row in db.execute(sys.argv[2]):
            print(*row, sep="|")
except sqlite3.Error as error:
    sys.exit(f"query.py: {error}")
"""


def orders_script(database: str, table: str) -> Script:
    """Return the episode with its database file and table named as given."""

    def check(home: Path) -> bool:
        return text_of(home / "totals.csv") == "brook|57.5\ndale|30.0\nheath|21.0\n"

    return Script(
        task=(
            f"Make the SQLite file {database} with a table {table}(id, customer, amount) holding "
            "four orders, correct the amount of order 2 to 30.0, and write the sum per customer, "
            "sorted by customer, to totals.csv. query.py FILE SQL runs a statement."
        ),
        prepare=lambda home: write(home / "query.py", QUERY_PROGRAM),
        turns=[
            turn("See what is here.", "ls\n", "cat query.py\n"),
            turn(
                "Create the table.",
                f"python3 query.py {database} 'CREATE TABLE {table}(id INTEGER PRIMARY KEY, "
                "customer TEXT, amount REAL)'\n",
            ),
            turn(
                "Fill it.",
                f"python3 query.py {database} \"INSERT INTO {table} VALUES (1, 'brook', 40.0), "
                "(2, 'dale', 13.0), (3, 'heath', 21.0), (4, 'brook', 17.5)\"\n",
            ),
            turn("Read it back.", f"python3 query.py {database} 'SELECT * FROM {table}'\n"),
            turn(
                "The sum per customer.",
                f"python3 query.py {database} 'SELECT client, SUM(amount) FROM {table} "
                "GROUP BY client'\n",
                "echo $?\n",
            ),
            turn(
                "The column is called customer.",
                f"python3 query.py {database} 'SELECT customer, SUM(amount) FROM {table} "
                "GROUP BY customer'\n",
                "echo $?\n",
            ),
            turn(
                "Correct order 2 and look at it.",
                f"python3 query.py {database} 'UPDATE {table} SET amount = 30.0 WHERE id = 2'\n",
                f"python3 query.py {database} 'SELECT amount FROM {table} WHERE id = 2'\n",
            ),
            turn(
                "Write the totals.",
                f"python3 query.py {database} 'SELECT customer, SUM(amount) FROM {table} "
                "GROUP BY customer ORDER BY customer' > totals.csv\n",
                "cat totals.csv\n",
            ),
        ],
        check=check,
        last_words="The totals are in totals.csv.",
    )


# --- git: a branch, a conflict, a merge ----------------------------------------------------------


def check_merge(home: Path) -> bool:
    def git(*arguments: str) -> str:
        command = ["git", "-c", "safe.directory=*", "-C", str(home / "site"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=20).stdout

    clean = git("status", "--porcelain") == ""
    return clean and git("show", "HEAD:colours.txt") == "sky blue\nleaf green\nbrick red\n"


GIT_MERGE = Script(
    task=(
        "Make a git repository site with colours.txt (blue, green, red). On branch names change "
        "blue to 'sky blue', on main to 'navy blue'. Merge names into main, keep 'sky blue', and "
        "make the other two 'leaf green' and 'brick red'. Leave nothing uncommitted."
    ),
    prepare=lambda home: None,
    turns=[
        turn(
            "Make the repository.",
            "git init -q -b main site && cd site\n",
            "git config user.name Ada && git config user.email ada@example.com\n",
        ),
        turn(
            "The first commit.",
            "printf 'blue\\ngreen\\nred\\n' > colours.txt\n",
            "git add colours.txt && git commit -q -m 'List three colours'\n",
        ),
        turn(
            "The branch.",
            "git checkout -b names\n",
            "sed -i 's/^blue$/sky blue/' colours.txt && git commit -qam 'Name the blue'\n",
        ),
        turn(
            "The other side.",
            "git checkout main\n",
            "sed -i 's/^blue$/navy blue/' colours.txt && git commit -qam 'Darken the blue'\n",
        ),
        turn("Merge.", "git merge names\n", "git status --short\n"),
        turn("See the conflict.", "cat colours.txt\n"),
        turn(
            "Keep the branch's side, name the others.",
            "printf 'sky blue\\nleaf green\\nbrick red\\n' > colours.txt\n",
            "git diff --stat\n",
        ),
        turn("Finish.", "git commit -qam 'Merge names'\n", "git status\n"),
        turn("Check.", "git log --format='%s' --graph\n", "git show HEAD:colours.txt\n"),
    ],
    check=check_merge,
    last_words="Merged, and the tree is clean.",
)

# --- a build that fails three times: syntax, linker, test ----------------------------------------

SPREAD_SOURCE = """#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Print the sample standard deviation of the numbers given. */
int main(int argc, char **argv)
{
    int n = argc - 1;
    double sum = 0, squares = 0;
    for (int i = 1; i <= n; i++) {
        double x = atof(argv[i])
        sum += x;
        squares += x * x;
    }
    double mean = sum / n;
    printf("%.3f\\n", sqrt((squares - n * mean * mean) / n));
    return 0;
}
"""
SPREAD_TEST = """#!/bin/sh
got=$(./spread 2 4 4 4 5 5 7 9)
[ "$got" = 2.138 ] && echo "ok" && exit 0
echo "FAILED: expected 2.138, got $got"
exit 1
"""


def prepare_spread(home: Path) -> None:
    write(home / "spread/spread.c", SPREAD_SOURCE)
    write(home / "spread/Makefile", "spread: spread.c\n\tcc -o spread spread.c\n")
    write(home / "spread/check.sh", SPREAD_TEST)
    (home / "spread/check.sh").chmod(0o755)


def check_spread(home: Path) -> bool:
    command = [str(home / "spread/spread"), "1", "3"]
    return Path(command[0]).is_file() and subprocess.check_output(command) == b"1.414\n"


BROKEN_BUILD = Script(
    task="In spread/, `make` fails. Make it build, and make ./check.sh print ok.",
    prepare=prepare_spread,
    turns=[
        turn("Go there and build.", "cd spread && ls\n", ("make\n", 1.5)),
        turn("A semicolon is missing in line 11.", "sed -n '9,12p' spread.c\n"),
        turn("Add it and build again.", "sed -i '11s/$/;/' spread.c\n", ("make\n", 1.5)),
        turn(
            "The linker does not find sqrt: libm is missing.",
            "sed -i 's/spread.c$/& -lm/; 1s/ -lm//' Makefile && cat Makefile\n",
            ("make && ./check.sh\n", 2.0),
        ),
        turn(
            "It builds; the value is wrong: a sample deviation divides by n - 1.",
            "grep -n 'sqrt' spread.c\n",
        ),
        turn(
            "Correct it.",
            "sed -i 's|mean) / n)|mean) / (n - 1))|' spread.c\n",
            ("make && ./check.sh\n", 2.0),
        ),
        turn("Another value by hand.", './spread 1 3; echo "status $?"\n'),
    ],
    check=check_spread,
    last_words="It builds and the check prints ok.",
)

EPISODES = {
    "access-log": ACCESS_LOG,
    "broken-build": BROKEN_BUILD,
    "git-merge": GIT_MERGE,
    "orders": orders_script("orders.db", "orders"),
    "orders-renamed": orders_script("shop.db", "orders"),
}
