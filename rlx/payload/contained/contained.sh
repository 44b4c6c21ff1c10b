# shellcheck shell=sh
# Keeps what a user's script ends, starts and submits within its run. The programs in bin/ stand for the real ones of their
# name, which they find later on PATH, and source this. What it does otherwise than they would is in the log and in
# events/interventions.jsonl. The processes of the script are those with its mark, and what descends from launch.sh.
set -u
name=${0##*/} bin=${0%/*}
IFS=' 	
'
MOST_RECORDS=1000

# find_real NAME: in REAL, the program that the script would start. No folder of another run, which would start this one.
find_real() {
    old=$IFS
    IFS=:
    for folder in $PATH; do
        case $folder in */payload/contained/bin | */payload/contained/bin/) continue ;; esac
        REAL=${folder:-.}/$1
        if [ -f "$REAL" ] && [ -x "$REAL" ]; then IFS=$old && return; fi
    done
    IFS=$old REAL=''
    return 1
}

start_real() {
    find_real "$name" || { printf '%s: command not found\n' "$name" >&2 && exit 127; }
    exec "$REAL" "$@"
}

# find_own: in OWN, the processes of the script without this one, each between blanks. A container may have no awk.
find_own() {
    marked=" $(grep -lzxF "RLX_CONTAINED=$RLX_CONTAINED" /proc/[0-9]*/environ 2>/dev/null | tr -dc '0-9\n' | tr '\n' ' ')"
    OWN='' all=''
    for file in /proc/[0-9]*/stat; do
        read_stat "$file" || continue
        all="$all $pid"
        eval "parent_$pid=$parent"
    done
    for pid in $all; do
        at=$pid is_own=''
        while [ "$at" -gt 1 ] && [ "$at" != $$ ]; do
            case $marked in *" $at "*) is_own=1 ;; esac
            eval "at=\${parent_$at:-0}"
            [ "$at" != "$RLX_CONTAINED_BY" ] || is_own=1
        done
        [ -z "$is_own" ] || [ "$at" = $$ ] || OWN="$OWN $pid"
    done
    OWN="$OWN "
}

# read_stat FILE: in pid, parent and group, what /proc says of a process; fails for one that is gone.
read_stat() {
    { read -r stat <"$1"; } 2>/dev/null || return 1
    pid=${1#/proc/} pid=${pid%/stat}
    # shellcheck disable=SC2086 # words
    set -- ${stat##*) }
    parent=${2-} group=${3-}
    # The name of a program may hold anything, a line break too.
    case $pid$parent$group in *[!0-9]*) return 1 ;; esac
    [ -n "$group" ]
}

# split PID…: in MINE and OTHERS.
split() {
    MINE='' OTHERS=''
    for pid in "$@"; do
        case $OWN in *" $pid "*) MINE="$MINE $pid" ;; *) [ "$pid" = "$$" ] || OTHERS="$OTHERS $pid" ;; esac
    done
}

# record DONE: in the log even where the script discards what this prints.
record() {
    line=$(printf '%s' "$command" | tr '\n\t' '  ' | tr -d '\000-\037\177' | cut -c 1-200)
    printf 'rlx: %s: %s\n' "$line" "$1" >>"$RLX_ATTEMPT_DIR/log"
    file=$RLX_ATTEMPT_DIR/events/interventions.jsonl
    [ ! -e "$file" ] || [ "$(wc -l <"$file")" -lt "$MOST_RECORDS" ] || return 0
    printf '{"kind": "intervention", "at": %s, "command": "%s", "done": "%s"}\n' "$(date +%s)" "$(escape "$line")" "$(escape "$1")" >>"$file"
} 2>/dev/null

record_sent() {
    # shellcheck disable=SC2086 # words
    others=$(count $OTHERS) mine=$(count $MINE)
    if [ "$others" = 0 ]; then others=''; else others="; $others of others left alone"; fi
    record "reached $mine of this run's processes$others"
}

escape() { printf '%s' "$1" | sed 's/[\\"]/\\&/g'; }

count() { printf %s "$#"; }

# end_mine PID…: of these, the script's own, by SIGNAL. Fails if there are none.
end_mine() {
    find_own
    split "$@"
    record_sent
    # shellcheck disable=SC2086 # words
    [ -n "$MINE" ] && kill -s "$SIGNAL" $MINE 2>/dev/null
}

# is_signal WORD: as an option; in SIGNAL, without its dash and SIG.
is_signal() {
    case $1 in
        -[0-9] | -[1-9][0-9] | -[A-Z][A-Z]* | -RTM*) ;;
        *) return 1 ;;
    esac
    named "${1#-}"
}

# named SIGNAL: a shell takes a number only as an option, and a name without SIG.
named() {
    case $1 in
        *[!0-9]*) SIGNAL=${1#SIG} ;;
        0) SIGNAL=0 ;;
        *) SIGNAL=$(kill -l "$1" 2>/dev/null) || SIGNAL=$1 ;;
    esac
}

contained_pkill() {
    SIGNAL=TERM
    for word in "$@"; do
        shift
        case ${before-} in --signal) before='' && named "$word" && continue ;; esac
        case $word in
            -V | --version | -h | --help) start_real "$word" ;;
            --signal) before=$word ;;
            --signal=*) named "${word#*=}" ;;
            -e | --echo) ;;
            *) is_signal "$word" || set -- "$@" "$word" ;;
        esac
    done
    # Without an answer, the words were no question.
    find_real pgrep || { echo "pkill: rlx needs pgrep to keep it within this run, and there is none" >&2 && exit 3; }
    found=$("$REAL" "$@")
    code=$?
    [ "$code" -le 1 ] || exit "$code"
    # shellcheck disable=SC2086
    end_mine $found
}

contained_killall() {
    SIGNAL=TERM exact=-x ignored='' users='' quiet='' waits='' before='' missing=0
    for word in "$@"; do
        shift
        case $before in
            -s) before='' && named "$word" && continue ;;
            -u) before='' && users=$word && continue ;;
        esac
        case $word in
            -V | --version | -l | --list) start_real "$word" ;;
            -s | --signal) before=-s ;;
            -u | --user) before=-u ;;
            -q | --quiet) quiet=1 ;;
            -w | --wait) waits=1 ;;
            -r | --regexp) exact='' ;;
            -I | --ignore-case) ignored=-i ;;
            -v | --verbose | -e | --exact | -g | --process-group) ;;
            --) ;;
            *) is_signal "$word" || case $word in
                -*) echo "killall: rlx does not know the option $word, and keeps it within this run" >&2 && exit 1 ;;
                *) set -- "$@" "$word" ;;
            esac ;;
        esac
    done
    find_real pgrep || { echo "killall: rlx needs pgrep to keep it within this run, and there is none" >&2 && exit 1; }
    for wanted in "$@"; do
        pattern=$wanted full=''
        [ -z "$exact" ] || pattern=$(printf '%s' "${wanted##*/}" | sed 's/[][\\.*^$+?(){}|]/\\&/g')
        # The kernel keeps 15 characters of a name.
        if [ -n "$exact" ] && [ "${#wanted}" -gt 15 ]; then full=-f pattern="^([^ ]*/)?$pattern( |\$)"; fi
        # shellcheck disable=SC2046,SC2086
        if ! end_mine $("$REAL" ${full:-$exact} $ignored ${users:+-u "$users"} -- "$pattern"); then
            missing=1
            [ -n "$quiet" ] || printf '%s: no process found\n' "$wanted" >&2
        elif [ -n "$waits" ]; then
            for pid in $MINE; do while kill -0 "$pid" 2>/dev/null; do sleep 0.2; done; done
        fi
    done
    return "$missing"
}

# kill, and in bash `kill --kept SHELL WORDS`, which prints the words that the builtin may have.
contained_kill() {
    shell='' options='' SIGNAL=TERM before='' targets='' left='' ended=''
    if [ "${1-}" = --kept ]; then
        shell=$2 && shift 2
        command="kill $*"
    fi
    for word in "$@"; do
        case $before in
            -s) before='' && options=1 && named "$word" && continue ;;
            end) ;;
            *)
                case $word in
                    -l | -L | --list* | --table | -V | --version | -h | --help) keep_words "$@" ;;
                    -s | -n | --signal) before=-s && continue ;;
                    --signal=*) named "${word#*=}" && continue ;;
                    --) before=end && continue ;;
                    -1) [ -z "$targets$options" ] && [ $# -gt 1 ] && named 1 && options=1 && continue ;;
                    -[a-z][a-z]*) [ -z "$targets$options" ] && named "$(printf %s "${word#-}" | tr '[:lower:]' '[:upper:]')" && options=1 && continue ;;
                    -*) [ -z "$targets$options" ] && is_signal "$word" && options=1 && continue ;;
                esac
                ;;
        esac
        targets="$targets $word"
    done
    [ "$SIGNAL" != 0 ] || keep_words "$@"
    # The jobs and children of the shell itself are what almost all scripts end.
    is_plain=1
    for target in $targets; do is_near "$target" || is_plain=''; done
    [ -z "$is_plain" ] || keep_words "$@"
    find_own
    for target in $targets; do keep_target "$target"; done
    [ -z "$left" ] || record "left$left alone, which belong to others"
    # shellcheck disable=SC2086
    if [ -n "$ended" ]; then keep_words -s "$SIGNAL" -- $ended; else keep_nothing; fi
}

keep_words() {
    if [ -n "$shell" ]; then printf '%s\n' "$@" && exit; fi
    start_real "$@"
}

# What was asked for is not there, as far as this run is concerned.
keep_nothing() {
    printf 'kill: (%s) - No such process\n' "${targets# }" >&2
    exit 1
}

is_near() {
    case $1 in
        %* | 0) return 0 ;;
        '' | *[!0-9]*) return 1 ;;
    esac
    [ -n "$shell" ] && read_stat "/proc/$1/stat" && [ "$parent" = "$shell" ]
}

keep_target() {
    case $1 in
        %* | 0) ended="$ended $1" ;;
        -1)
            # As the kernel does it: to all but the one that asks.
            for pid in $OWN; do case $pid in "$shell" | "$PPID") ;; *) ended="$ended $pid" ;; esac; done
            record "reached the processes of this run alone"
            ;;
        -*[!0-9]* | *[!0-9-]*)
            # A name, which a builtin takes for an error.
            [ -n "$shell" ] && ended="$ended $1" && return
            # shellcheck disable=SC2046 # words
            find_real pgrep && split $("$REAL" -x -- "$1") && ended="$ended$MINE"
            record_sent
            ;;
        -*)
            wanted=${1#-} found=''
            for file in /proc/[0-9]*/stat; do
                read_stat "$file" && [ "$group" = "$wanted" ] && found="$found $pid"
            done
            # shellcheck disable=SC2086 # words
            split $found
            if [ -z "$OTHERS" ]; then ended="$ended $1"; else left="$left $1"; fi
            ;;
        *)
            split "$1"
            if [ -z "$OTHERS" ] || [ ! -d "/proc/$1" ]; then ended="$ended $1"; else left="$left $1"; fi
            ;;
    esac
}

contained_fuser() {
    SIGNAL=KILL is_kill='' before=''
    for word in "$@"; do
        case $word in --kill) is_kill=1 ;; --*) ;; -[A-Z][A-Z]*) ;; -*k*) is_kill=1 ;; esac
    done
    [ -n "$is_kill" ] || start_real "$@"
    for word in "$@"; do
        shift
        case $before in -n) before='' && set -- "$@" "$word" && continue ;; esac
        case $word in
            -n | --namespace) before=-n && set -- "$@" "$word" ;;
            --kill | --interactive | --silent | --ismountpoint) ;;
            --*) set -- "$@" "$word" ;;
            -*) is_signal "$word" || { word=$(printf '%s' "$word" | tr -d kisw) && [ "$word" = - ] || set -- "$@" "$word"; } ;;
            *) set -- "$@" "$word" ;;
        esac
    done
    find_real fuser || { echo "fuser: command not found" >&2 && exit 127; }
    # shellcheck disable=SC2046 # it prints the pids alone on stdout
    end_mine $("$REAL" "$@" 2>/dev/null)
}

contained_ray() {
    find_real ray || { echo "ray: command not found" >&2 && exit 127; }
    for python in "${REAL%/*}/python3" "${REAL%/*}/python" python3 python; do
        "$python" -I -S -c 'import sys; sys.exit(sys.version_info < (3, 8))' 2>/dev/null || continue
        find_own
        # shellcheck disable=SC2093 # the loop goes on where it is no Python
        exec "$python" -I -S "$bin/../contained_ray.py" "$REAL" "$OWN" "$@"
    done
    echo "ray: rlx needs a Python 3.8 or later beside it to keep it within this run, and there is none" >&2
    exit 1
}

command="$name $*"
"contained_$name" "$@"
