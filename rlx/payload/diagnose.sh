#!/bin/sh
# The lines of a log that may say why a run failed, with the frames of their tracebacks, and its last lines. Reads on
# the host, so that only those travel. Writes nothing. POSIX sh; comes as the argument of `sh -c`.
#
#   LOG NEEDLES        NEEDLES: an extended regular expression
#
# The answer has a line `<number>:<text>` for each line with a needle, `<number>-<text>` for a frame before it, and
# `<number>=<text>` for the last lines. Of lines that differ in digits only, the first few are told, and by
# `<number>+<count>` how many more there are of the one with that number. First of all comes `size <bytes>`; where there
# is no such file, nothing does; where the host lacks a program, `lacks <program>`.
set -u
export LC_ALL=C

FRAMES='File "[^"]*", line [0-9]|Traceback [(]most recent call last|The above exception was|During handling of'
DEEPEST=300 # frames of a traceback
ALIKE=3
MOST=4000
LONG=1048576 # bytes
LAST_BYTES=65536
LAST=30

log=$1 needles=$2
# shellcheck disable=SC2088 # the tilde is text here, and becomes this host's home
case $log in '~' | '~/'*) log=${HOME:?}${log#'~'} ;; esac
for tool in awk fold grep tail wc; do
    command -v "$tool" >/dev/null || { echo "lacks $tool" && exit; }
done
[ -f "$log" ] || exit 0
# Not every stat knows -c: the log may be one that was taken in, on a machine of any kind.
size=$(stat -L -c %s "$log" 2>/dev/null) || size=$(wc -c <"$log") || exit 0
echo "size $((size))"

# shellcheck disable=SC2016 # awk's own variables
CHOOSE='
function shorten(text,    parts, count, i, at) {
    if (length(text) <= 4000) return text
    count = split(text, parts, "\r")
    for (i = 1; i <= count; i++)
        if (match(parts[i], needles)) {
            at = RSTART > 1000 ? RSTART - 1000 : 1
            return substr(parts[i], at, 4000)
        }
    return substr(text, 1, 4000)
}
{ at = index($0, ":"); number = substr($0, 1, at - 1); text = substr($0, at + 1) }
text ~ frames { hold[held++ % deepest] = number "-" substr(text, 1, 600); next }
{
    text = shorten(text)
    key = substr(text, 1, 300)
    gsub(/0x[0-9a-f]+|[0-9a-f-]*[0-9][0-9a-f-]*/, "#", key)
    if (!(key in seen) && told < most) first[key] = number
    if (key in first && ++seen[key] <= alike && told < most) {
        for (i = held > deepest ? held - deepest : 0; i < held; i++) print hold[i % deepest]
        print number ":" text
        told += 1 + (held < deepest ? held : deepest)
    }
    held = 0
}
END { for (key in first) if (seen[key] > alike) print first[key] "+" (seen[key] - alike) }'

# A line of gigabytes is cut, so that it need not fit in memory; with it shift the numbers of those behind it. The
# fold of busybox does not take such widths: there it stays whole.
fold_long() {
    if fold -b -w "$LONG" </dev/null 2>/dev/null; then fold -b -w "$LONG"; else cat; fi
}
fold_long <"$log" | grep -aEn -e "$needles|$FRAMES" |
    awk -v needles="$needles" -v frames="$FRAMES" -v deepest="$DEEPEST" -v alike="$ALIKE" -v most="$MOST" "$CHOOSE"

# shellcheck disable=SC2016 # awk's own variables
NUMBER='{ line[NR] = substr($0, 1, 600) } END { for (i = 1; i <= NR; i++) print total - NR + i "=" line[i] }'
begun=$(tail -c 1 "$log" | wc -l)
total=$(($(wc -l <"$log") + 1 - begun))
tail -c "$LAST_BYTES" "$log" | tail -n "$LAST" | awk -v total="$total" "$NUMBER"
