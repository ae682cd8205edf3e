#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# The files of the source tree: README.md is short, lines are at most 120 columns wide, clang-format finds nothing, no two
# tests share a name, no folder is crowded, and the tarball has every tracked file. Each check finds a planted fault first.

# shellcheck source=tests/lib.sh
source "$top_srcdir/tests/lib.sh"

most_lines=130 # of README.md
most_columns=120
most_files=60 # of a folder
sources=('(' -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.cc' -o -name '*.inc' -o -name '*.py' ')')

# long ROOT: complain about a README.md of too many lines.
long()
{
    local n
    n=$(wc -l <"$1/README.md")
    ((n <= most_lines)) || echo "README.md has $n lines, expected at most $most_lines"
}

# wide ROOT: complain about lines of sources, and of code in Markdown, that are too wide. Blocks of text are output.
wide()
{
    (cd "$1" && export LC_ALL=C.UTF-8 && {
        find support data partition tasks codelets runtime apps tests python "${sources[@]}" ! -path 'tests/*.py' \
            ! -path 'tests/homes/*' -exec awk -v most=$most_columns '
                length > most { print FILENAME ": line " FNR " has " length " columns" }' {} +
        find . -name '*.md' ! -path './shared/*' -exec awk -v most=$most_columns '
            FNR == 1 { block = 0 }
            /^ *```/ { block = !block; output = /^ *```text/; next }
            block && !output && length > most { print FILENAME ": line " FNR " has " length " columns" }' {} +
    })
}

# unformatted ROOT: complain about sources that clang-format would change.
unformatted()
{
    (cd "$1" && find support data partition tasks codelets runtime apps tests '(' -name '*.[ch]' -o -name '*.cc' -o -name '*.cu' \
        -o -name '*.cuh' -o -name '*.inc' ')' -exec "$clang_format" --style=file --dry-run {} + 2>&1 | grep -c 'warning: code should be' |
        sed -n 's/^[1-9].*/& places are not formatted, see make check-format/p')
}

# undistributed: complain about tracked files, on standard input, that are not among the files and folders of $distributed.
undistributed()
{
    local file place
    while read -r file; do
        place=$file
        while [[ $place == */* && " $distributed " != *" $place "* ]]; do
            place=${place%/*}
        done
        [[ " $distributed " == *" $place "* ]] || echo "$file is not in the tarball"
    done
}

# must_complain CHECK FILE TEXT WORDS: the check finds a fault in a tree of its own.
must_complain()
{
    local tree=$folder/tree
    rm -rf "$tree"
    mkdir -p "$tree"/{support,data,partition,tasks,codelets,runtime,apps,tests,python}
    cp "$top_srcdir/.clang-format" "$tree"
    printf '%b' "$3" >"$tree/$2"
    "$1" "$tree" 2>&1 | grep -q -- "$4" || complain "the check $1 overlooks $2"
}

must_complain long README.md "$(printf 'line\\n%.0s' {1..131})" 'has 131 lines'
must_complain wide support/x.c "$(printf 'int long_%.0s' {1..20});\n" 'support/x.c: line 1 has'
must_complain wide python/x.py "# $(printf 'word_%.0s' {1..30})\n" 'python/x.py: line 1 has'
must_complain wide x.md "\`\`\`sh run\n$(printf 'word %.0s' {1..30})\n\`\`\`\n" 'x.md: line 2 has'
for check in long wide; do
    found=$($check "$top_srcdir")
    [[ -z $found ]] || complain "$found"
done

clang_format=$(sed -n 's/^CLANG_FORMAT = //p' "$top_builddir/Makefile")
if [[ $("$clang_format" --version 2>/dev/null) == *' 14.'* ]]; then
    must_complain unformatted support/x.c 'int  x ;\n' '1 places are not formatted\|places are not formatted'
    found=$(unformatted "$top_srcdir")
    [[ -z $found ]] || complain "$found"
else
    echo "not checked: the format; there is no clang-format 14"
fi

# Tests of one name share a home (build-aux/test-env). If their folders are equal, too, they share a log, and make check runs one.
same_name()
{
    tr ' ' '\n' | sed 's/\.sh$//; s,.*/,,' | sort | uniq -d
}
[[ $(same_name <<<'tests/a/test_a tests/b/test_b.sh tests/b/test_a.sh') == test_a ]] || complain 'same_name is blind'

# crowded: complain about folders that hold more than $most_files of the files on standard input.
crowded()
{
    sed -n 's,/[^/]*$,,p' | sort | uniq -c | awk -v most=$most_files '
        $1 > most { print $2 "/ has " $1 " files, expected at most " most }'
}
[[ $(printf 'x/%d\n' {1..61} | crowded) == 'x/ has 61 files, expected at most 60' ]] || complain 'crowded is blind'
tests=$(env -u MAKEFLAGS -u MFLAGS make -s -C "$top_builddir" print-tests)
[[ " $tests " == *' tests/project/test_tree.sh '* ]] || complain "make print-tests: $tests"
found=$(same_name <<<"$tests")
[[ -z $found ]] || complain "these tests share a name with another: $found"

if tracked=$(git -C "$top_srcdir" ls-files 2>/dev/null) && [[ -e $top_srcdir/.git && -n $tracked ]]; then
    distributed=$(env -u MAKEFLAGS -u MFLAGS make -s -C "$top_builddir" print-distfiles)
    [[ " $distributed " == *' tests/lib.sh '* ]] || complain "make print-distfiles: $distributed"
    [[ $(undistributed <<<'tests/test_missing.c') == 'tests/test_missing.c is not in the tarball' ]] || complain 'undistributed is blind'
    found=$(grep -Ev '^(\.ci/|\.git|README$)' <<<"$tracked" | undistributed; crowded <<<"$tracked")
    [[ -z $found ]] || complain "$found"
else
    echo "not checked: the tarball; this is no git checkout"
fi
exit $failed
