#!/bin/sh
# Tells what is new in the files of runs, for a copy on another machine. POSIX sh on Linux. Reads only.
#
#   sh -s -- ROOT MARK NEEDLES LINE_BYTES MOST_BYTES FILE_BYTES SECONDS
#
# It comes on stdin, followed by `answer IDS KNOWN`: the run ids, a line each, and a line `<inode> <bytes> <path>` for each
# file that the copy has, as far as it has it. Paths are relative to ROOT/runs.
#
# The answer is frames, each `MARK <how> <inode> <from> <to> <left> <sum> <sum> <path>` and then data. MARK is a random
# word, so nothing that a file does while it is read can shift where a frame ends. <left> bytes wait for another call.
# The sums are those of a few bytes before <from> and before <to>: by them a replaced file shows. The kinds of data:
#
#   whole    the file: it is small, and replaced as a whole
#   grown    its bytes from <from> to <to>; fewer than that if it shrank
#   lines    the lines between <from> and <to> that contain one of NEEDLES (a line each)
#   count    how many lines it has
#   denied   none: this user may not read it, or not look into it: it may be a folder
#   later    none: the SECONDS are over, or there is no room: an answer takes MOST_BYTES of logs, metrics and events, of
#            which FILE_BYTES may be metrics and events
#
# Where not all has room, runs come one after the other, each with all its files: of one that is half here, what was read
# is read again. A log waits for the metrics and events of its run.
#
# The last frame is `MARK end`. An answer with data is compressed where there is a gzip.
#
# As a rule nothing is new, on many hosts at once: that is told with as few processes as can be. Then KNOWN is what `look`
# finds, if it is in the same order; in another one it takes longer to find out.
set -u
export LC_ALL=C

for tool in awk cksum grep head stat tail tr wc xargs; do
    command -v "$tool" >/dev/null || { echo "this host has no $tool" >&2; exit 1; }
done
root=$1 mark=$2 needles=$3 line_bytes=$4 most_bytes=$5 file_bytes=$6
NEWLINE='
'
IFS=$NEWLINE
# shellcheck disable=SC2088 # the tilde is text here, and becomes this host's home
case $root in '~' | '~/'*) root=${HOME:?}${root#'~'} ;; esac

# The order is what makes the copy truthful: who sees an end in it has all that was written before that end, and noise
# is never older than the metrics of its step.
list() {
    for id in $ids; do
        printf '%s\n' "$id/$ATTEMPTS_DIR"/*/"$STATE_DIR/$EXIT_FILE" "$id/$ATTEMPTS_DIR"/*/"$STATE_DIR/$STOP_FILE" \
            "$id/$STOP_FILE"
    done
    for id in $ids; do
        attempts=$id/$ATTEMPTS_DIR
        printf '%s\n' "$id/$MANIFEST_FILE" "$attempts"/*/"$LINEAGE_FILE" "$attempts"/*/"$PROVENANCE_FILE" \
            "$attempts"/*/"$COMPOSED_FILE" "$attempts"/*/"$PRINTED_FILE" "$attempts"/*/"$METRICS_FILE" \
            "$attempts"/*/"$USAGE_FILE" \
            "$attempts"/*/"$EVENTS_DIR"/*.jsonl "$attempts"/*/"$VALIDATION_DIR"/*.jsonl
    done
    for id in $ids; do printf '%s\n' "$id/$ATTEMPTS_DIR"/*/"$LOG_FILE"; done
}

# `<inode> <bytes> <path>` of those that there are. 126: more than one command can be told.
look() {
    files=$(list)
    set -f
    # shellcheck disable=SC2086 # one word a file
    set -- $files
    stat -c '%i %s %n' "$@"
    [ $? -ne 126 ] || printf '%s\0' "$@" | xargs -0 stat -c '%i %s %n'
} 2>/dev/null

# A folder that may not be looked into hides files that evidence needs: without a word it would speak against the run.
tell_closed_folders() {
    for id in $ids; do
        attempts=$id/$ATTEMPTS_DIR
        for path in "$id" "$attempts" "$attempts"/* "$attempts"/*/"$STATE_DIR" "$attempts"/*/"$EVENTS_DIR" \
            "$attempts"/*/"$VALIDATION_DIR"; do
            if [ -d "$path" ] && ! { [ -r "$path" ] && [ -x "$path" ]; }; then
                printf '%s\n' "$mark denied - 0 0 0 - - $path/"
            fi
        done
    done
}

# From what the copy has, an empty line, and what there is: what to send. Inodes may exceed the numbers of awk.
# shellcheck disable=SC2016 # awk's own variables
CHOOSE='
function ends(with) { return substr(path, length(path) - length(with) + 1) == with }
{ path = substr($0, length($1) + length($2) + 3); now = $1 "" }
!listed && $0 == "" { listed = 1; next }
!listed { inode[path] = now; bytes[path] = $2 + 0; next }
ends("/" exit_file) { ended[substr(path, 1, length(path) - length(exit_file) - 1)] = 1 }
inode[path] == now && bytes[path] == $2 + 0 { next }
{
    how = "whole"
    if (path ~ ("/" attempts "/[^/]*/" log_file "$")) how = "lines"
    if (ends("/" metrics) || ends("/" usage) || path ~ ("/" events "/[^/]*$")) how = "grown"
    if (path ~ ("/" validation "/[^/]*$")) how = "count"
    from = 0
    to = $2 + 0
    run = path
    sub("/.*", "", run)
    if (how in room) {
        if (inode[path] == now && bytes[path] <= to) from = bytes[path]
        fits = how == "lines" && run in behind ? 0 : room[how]
        if (to - from > fits) to = from + fits
        room[how] -= to - from
        if (how == "grown") room["lines"] -= to - from
        if (to == from && to < $2 + 0) {
            behind[run] = 1
            how = "later"
        }
    }
    attempt = path
    sub("/" events "/[^/]*$", "", attempt) || sub("/[^/]*$", "", attempt)
    over = (attempt in ended) && to == $2 + 0
    printf "%s %s %.0f %.0f %.0f %d %s\n", how, now, from, to, $2 - to, over, path
}'

# piece FROM TO
piece() {
    if [ "$1" -eq "$2" ]; then
        return
    elif [ "$1" -eq 0 ]; then
        head -c "$2" "$path"
    else
        tail -c "+$(($1 + 1))" "$path" | head -c "$(($2 - $1))"
    fi
}

clock() { IFS=. read -r NOW _ </proc/uptime; } # whole seconds since boot, in NOW

# sum OFFSET: of the bytes before it, in SUM.
sum() {
    SUM=-
    [ "$1" -eq 0 ] && return
    begin=$(($1 - 64))
    [ "$begin" -gt 0 ] || begin=0
    SUM=$(piece "$begin" "$1" | cksum)
    SUM=${SUM%% *}
}

# A line that is still being written waits for its end. No line that matters is as long as line_bytes.
stop_at_line_end() {
    begin=$((to - line_bytes))
    [ "$begin" -gt "$from" ] || begin=$from
    begun=$({ piece "$begin" "$to" | tr '\r' '\n' && printf .; } | tail -n 1 | wc -c)
    begun=$((begun - 1))
    [ "$begun" -lt "$line_bytes" ] || return
    to=$((to - begun))
    [ "$left" -eq 0 ] || left=$((left + begun))
}

# An endless line is cut at blanks, so that it does not travel for the sake of a word in it. The fold of busybox cannot
# do that for such widths; then it travels.
can_fold() {
    [ -n "${FOLDS-}" ] || FOLDS=$(fold -b -s -w "$line_bytes" </dev/null 2>/dev/null && echo yes || echo no)
    [ "$FOLDS" = yes ]
}

fold_long() {
    if can_fold; then fold -b -s -w "$line_bytes" | grep -aF -e "$needles"; else cat; fi
}

pick() {
    tr '\r\000' '\n\001' | grep -aF -e "$needles" | fold_long
}

send() {
    [ -r "$path" ] || how=denied
    clock
    [ "$NOW" -lt "$until_s" ] || how=later
    [ "$how" != lines ] || [ "$over" -eq 1 ] || stop_at_line_end
    before=- after=-
    case $how in
        grown | lines)
            sum "$from" && before=$SUM
            # To what is over nothing will be added.
            [ "$over" -eq 1 ] || { sum "$to" && after=$SUM; }
            ;;
    esac
    printf '%s\n' "$mark $how $inode $from $to $left $before $after $path"
    case $how in
        whole | grown) piece "$from" "$to" ;;
        lines) can_fold; [ "$from" -eq "$to" ] || piece "$from" "$to" | pick ;;
        count) wc -l <"$path" ;;
    esac
}

choose() {
    printf '%s\n' "${known:+$known$NEWLINE}" "$found" | awk -v "most_bytes=$most_bytes" -v "file_bytes=$file_bytes" \
        -v "attempts=$ATTEMPTS_DIR" -v "log_file=$LOG_FILE" -v "metrics=$METRICS_FILE" -v "usage=$USAGE_FILE" -v "events=$EVENTS_DIR" \
        -v "validation=$VALIDATION_DIR" -v "exit_file=$STATE_DIR/$EXIT_FILE" \
        "BEGIN { room[\"lines\"] = most_bytes; room[\"grown\"] = file_bytes } $CHOOSE"
}

tell() {
    tell_closed_folders
    [ "$found" = "$known" ] || choose | while IFS=' ' read -r how inode from to left over path; do send; done
    printf '%s\n' "$mark end"
}

clock
until_s=$((NOW + $7))
answer() {
    ids=$1 known=$2
    cd "$root/runs" 2>/dev/null || ids=
    found=$(look)
    # Nothing at all may be the fault of a stat that is another one.
    [ -n "$found" ] || stat -c %s . >/dev/null || return
    if [ "$found" != "$known" ] && command -v gzip >/dev/null; then tell | gzip -1; else tell; fi
}
