#!/bin/sh
# Reads the log of a run on its host, so that only what was asked for travels. Writes nothing. POSIX sh; comes as the
# argument of `sh -c`.
#
#   read RUN KIND PATTERN LINES SINCE                   what there is now
#   follow RUN KIND PATTERN LINES ATTEMPT INODE AT SKIP what there is and what comes, until the run's end is recorded
#
# KIND says what PATTERN is: `regex` (grep -E), `fixed` (grep -F), or `all`: every line, whatever PATTERN says. LINES
# is how many of the last lines, SINCE the seconds they may be old; either may be empty.
#
# follow answers in blocks:
#   log ATTEMPT INODE AT SKIP   what follows is of this file: a selection of its bytes from AT on, without the first
#                               SKIP bytes of the selection
#   data NEXT COUNT             COUNT bytes of the selection follow; the log up to NEXT is in it. None: a sign of life
#   end                         the run is over and all of it was sent
#   gone                        there is no such run
# The selection from a place on is the same whenever it is asked for, since a log only grows. So a reader who was cut
# off gets exactly the rest by naming ATTEMPT, INODE, AT of the last block that began, and what it had of it as SKIP.
set -u

BLOCK=67108864 # bytes of the log a block, so that a cut costs little
WINDOW=1048576 # where to look first for what is near the end
SHORT_NAP=0.1
LONG_NAP=0.3
SHORT_NAPS=10
SIGN_OF_LIFE=20 # naps
RG='-aFNI --no-config --color=never --encoding=none'
NEWLINE='
'

# size FILE: its length in SIZE; fails when it is gone. A log that was taken in may lie on a machine whose stat is another.
size() {
    SIZE=$(stat -L -c %s "$1" 2>/dev/null) && [ -n "$SIZE" ] && return
    [ -f "$1" ] && SIZE=$(($(wc -c <"$1")))
} 2>/dev/null

# number FILE: its inode, in inode; empty when it is gone.
number() {
    inode=$(stat -L -c %i "$1") && [ -n "$inode" ] && return
    # shellcheck disable=SC2012 # the name of the file does not matter
    inode=$(ls -diL "$1" | awk '{ print $1 }')
} 2>/dev/null

# bytes FROM TO: this part of the log.
bytes() { tail -c "+$(($1 + 1))" "$log" | head -c "$(($2 - $1))"; }

# For fixed strings, rg says the same as grep and is several times as fast; its regular expressions are others.
choose_grep() {
    fixed='grep -aF' file=
    case $pattern in *"$NEWLINE"*) return ;; esac
    # shellcheck disable=SC2086 # several words
    rg $RG -e "$pattern" - </dev/null >/dev/null 2>&1
    [ $? -ne 1 ] || fixed="rg $RG" file=-
}

pick() {
    if [ "$kind" = regex ]; then
        LC_ALL=C grep -aE -e "$pattern"
    elif [ "$kind" = fixed ]; then
        # shellcheck disable=SC2086 # several words; one or none
        LC_ALL=C $fixed -e "$pattern" $file
    else
        cat
    fi
}

selection() {
    if [ "$kind" = all ]; then bytes "$1" "$2"; else bytes "$1" "$2" | pick; fi
}

# find_last TO LINES: in FROM, a place from which on the selection up to TO has more than the last LINES lines. Looks
# from the end, at more and more, so that it costs the same in a log of any length.
find_last() {
    window=$WINDOW FROM=1
    while [ "$FROM" -gt 0 ]; do
        FROM=0
        if [ "$1" -gt "$window" ]; then
            FROM=$(($1 - window))
            # The line that the window cuts is left out.
            FROM=$((FROM + $(bytes "$FROM" "$1" | head -n 1 | wc -c)))
        fi
        [ "$(selection "$FROM" "$1" | wc -l)" -le "$2" ] || return 0
        window=$((window * 16))
    done
}

# line_end FROM TO: in END, where the last whole line between them ends; FROM if there is none.
line_end() {
    window=$WINDOW
    while :; do
        begin=$1
        [ $(($2 - $1)) -le "$window" ] || begin=$(($2 - window))
        END=$2
        if [ "$2" -gt "$1" ] && [ "$(bytes $(($2 - 1)) "$2" | wc -l)" -eq 0 ]; then
            END=$(($2 - $(bytes "$begin" "$2" | tail -n 1 | wc -c)))
        fi
        [ "$END" -eq "$begin" ] && [ "$begin" -gt "$1" ] || return 0
        window=$((window * 16))
    done
}

# ---- read ----------------------------------------------------------------------------------------------------------

read_log() {
    log=$run/$LATEST_LINK/$LOG_FILE FROM=0
    size "$log" || exit 0
    # The supervisor notes every few seconds how long the log was; that dates lines which carry no time themselves.
    [ -z "$since" ] || FROM=$(awk -v limit="$(($(date +%s) - since))" '$1 <= limit { at = $2 } END { print at + 0 }' \
        "$run/$LATEST_LINK/$STATE_DIR/$CLOCK_FILE" 2>/dev/null) || FROM=0
    if [ -z "$lines" ]; then
        from_on
    elif [ "$FROM" -gt 0 ]; then
        from_on | tail -n "$lines"
    else
        find_last "$SIZE" "$lines"
        from_on | tail -n "$lines"
    fi
}

from_on() {
    if [ "$FROM" -gt 0 ]; then tail -c "+$((FROM + 1))" "$log" | pick; else pick <"$log"; fi
}

# ---- follow --------------------------------------------------------------------------------------------------------

# No reader is left: the end of it, also where the signal of the broken pipe is ignored.
say() { printf '%s\n' "$*" || exit; }

# open_log INODE: the file that the reader knows may be another one by now; then it begins anew.
open_log() {
    log=$run/$ATTEMPTS_DIR/$attempt/$LOG_FILE
    number "$log"
    if [ -z "$attempt" ] || [ "$inode" != "$1" ] || ! size "$log" || [ "$SIZE" -lt "$at" ]; then
        attempt=$(readlink "$run/$LATEST_LINK")
        attempt=${attempt##*/}
        [ -n "$attempt" ] || { say gone && exit; }
        begin_log
        see_end
        if [ -n "$lines" ] && size "$log"; then begin_near_the_end; fi
    fi
    say log "$attempt" "${inode:-0}" "$at" "$skip"
}

begin_log() {
    log=$run/$ATTEMPTS_DIR/$attempt/$LOG_FILE at=0 skip=0
    number "$log"
}

# see_end: in over, whether the attempt has ended.
see_end() {
    over='' later=$run/$ATTEMPTS_DIR/$((attempt + 1))
    if [ -e "$run/$ATTEMPTS_DIR/$attempt/$STATE_DIR/$EXIT_FILE" ] || [ -d "$later" ]; then over=1; fi
}

begin_near_the_end() {
    END=$SIZE
    [ "$kind" = all ] || [ -n "$over" ] || line_end 0 "$SIZE"
    find_last "$END" "$lines"
    at=$FROM
    skip=$(($(selection "$at" "$END" | wc -c) - $(selection "$at" "$END" | tail -n "$lines" | wc -c)))
}

# find_block: in END, how far the next block goes. A pattern needs whole lines: what half a line matches, the whole may
# match again. What the reader has of a block is certainly in it if the block is not limited.
find_block() {
    block=$BLOCK
    while :; do
        END=$SIZE
        [ "$skip" -gt 0 ] || [ $((SIZE - at)) -le "$block" ] || END=$((at + block))
        [ "$kind" != all ] && { [ -z "$over" ] || [ "$END" -lt "$SIZE" ]; } || return 0
        limit=$END
        line_end "$at" "$END"
        [ "$END" -eq "$at" ] && [ "$limit" -lt "$SIZE" ] || return 0
        block=$((block * 4))
    done
}

send_block() {
    if [ "$kind" = all ]; then
        count=$((END - at))
    else
        count=$(selection "$at" "$END" | wc -c)
    fi
    say data "$END" "$((count - skip))"
    [ "$count" -eq "$skip" ] || filled_up | head -c "$((count - skip))"
    at=$END skip=0 quiet=0
}

# A log that is cut meanwhile gives less than was announced: zeros take its place.
filled_up() {
    if [ "$skip" -gt 0 ]; then
        selection "$at" "$END" | tail -c "+$((skip + 1))"
    else
        selection "$at" "$END"
    fi
    cat /dev/zero
} 2>/dev/null

follow_log() {
    quiet=0
    while :; do
        # The end is read before the size: a recorded end means that everything was written.
        see_end
        size "$log" || SIZE=$at
        # Shorter than it was: it was copied and truncated. It begins again, and the reader sees that from the place.
        if [ "$SIZE" -lt "$at" ]; then
            begin_log
            say log "$attempt" "${inode:-0}" 0 0
        fi
        find_block
        if [ "$END" -gt "$at" ]; then
            send_block
        elif [ -z "$over" ]; then
            rest
        elif [ -d "$later" ]; then
            attempt=$((attempt + 1))
            begin_log
            say log "$attempt" "${inode:-0}" 0 0
        else
            say end
            exit
        fi
    done
}

rest() {
    nap=$SHORT_NAP
    [ "$quiet" -lt "$SHORT_NAPS" ] || nap=$LONG_NAP
    sleep "$nap" 2>/dev/null || sleep 1
    quiet=$((quiet + 1))
    [ "$quiet" -lt "$SIGN_OF_LIFE" ] || { say data "$at" 0 && quiet=$SHORT_NAPS; }
}

verb=$1 run=$2 kind=$3 pattern=$4 lines=$5
# shellcheck disable=SC2088 # the tilde is text here, and becomes this host's home
case $run in '~' | '~/'*) run=${HOME:?}${run#'~'} ;; esac
[ "$kind" != fixed ] || choose_grep
case $verb in
    read)
        since=$6
        read_log
        ;;
    follow)
        attempt=$6 at=$8 skip=$9
        open_log "$7"
        follow_log
        ;;
esac
