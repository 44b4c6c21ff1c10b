#!/bin/sh
# Looks at a running container, and finds the folder that it shares with its host and that runs can use. POSIX sh.
#
#   locate.sh CONTAINER ROOT TASK [FORMAT [INSIDE [OUTSIDE]]]
#
#   ROOT      what the site names, `~/rlx` if it leaves the choice
#   TASK      `try`, or `look`, which writes to no shared folder and finds runs that are there already
#   FORMAT    for docker inspect: what else of the container is to be printed, as one line
#   INSIDE    a script for the same visit to the container
#   OUTSIDE   a script for the host, if a shared folder was found; that is its argument
#
# ask_docker.sh goes before it. Prints `<key> <value>` lines. `error <kind> <text>` ends them;
# hosts/containers/container_errors.py has the words for each kind.
# A folder counts only if a 0700 folder of this user in it can be read and written inside: mounts hide each other,
# user namespaces and other users are refused by the kernel, not by docker inspect. What is tried is removed again.
set -u
umask 077
TAB=$(printf '\t')
FORMAT='id {{.Id}}
name {{.Name}}
status {{.State.Status}}
image {{.Image}}
{{range .Mounts}}mount {{.Type}}{{"\t"}}{{.RW}}{{"\t"}}{{.Source}}{{"\t"}}{{.Destination}}
{{end}}'

inspect() {
    command -v docker >/dev/null || error no-docker
    seen=$(ask inspect --type container -f "$FORMAT$fields" "$1" 2>&1) || refuse "${seen##*"$NEWLINE"}"
    while IFS= read -r line; do
        case $line in
            '' | 'mount '*) continue ;;
            'id '*) id=${line#id } ;;
            'status '*) status=${line#status } ;;
        esac
        printf '%s\n' "$line"
    done <<END
$seen
END
    [ "$status" = running ] || error state "$status"
}

# ---- which folder --------------------------------------------------------------------------------------------------

# The folder itself, or the nearest above it that exists, without symbolic links; what is missing of it in REST.
real() {
    REAL=$1 REST=
    until [ -d "$REAL" ]; do
        REST=/${REAL##*/}$REST
        REAL=${REAL%/*}
        REAL=${REAL:-/}
    done
    REAL=$(cd -P -- "$REAL" 2>/dev/null && pwd -P) || return 1
    REAL=${REAL%/}
}

# Writable mounts of folders that do not belong to a system: `<source>TAB<destination>` a line, in MOUNTS.
find_mounts() {
    MOUNTS=
    while IFS=$TAB read -r kind writable source destination; do
        case $kind in 'mount '*) ;; *) continue ;; esac
        usable "${kind#mount }" "$writable" "$source" || continue
        source=$(cd -P -- "$source" 2>/dev/null && pwd -P) || continue
        MOUNTS="$MOUNTS$source$TAB$destination$NEWLINE"
    done <<END
$seen
END
}

usable() {
    case $1 in bind | volume) ;; *) return 1 ;; esac
    [ "$2" = true ] && [ -d "$3" ] || return 1
    case $3/ in
        //) return 1 ;;
        /dev/* | /proc/* | /sys/* | /etc/* | /usr/* | /run/* | /var/run/* | /boot/* | /lib*/* | /bin/* | /sbin/*) return 1 ;;
    esac
    case $(stat -f -c %T "$3" 2>/dev/null) in tmpfs | ramfs | proc | sysfs | '') return 1 ;; esac
}

# below FOLDER: in SHARED, the same folder as the container writes it, by the innermost mount that holds it.
below() {
    SHARED='' innermost=
    while IFS=$TAB read -r source destination; do
        case $1/ in "$source"/*) ;; *) continue ;; esac
        [ "${#source}" -ge "${#innermost}" ] || continue
        innermost=$source
        SHARED=${destination%/}${1#"$source"}
    done <"$mounts"
    [ -n "$SHARED" ]
}

# Candidates in order of preference, `<root>TAB<root inside>` a line: the site's root; else runs that are there already,
# a mount of one's own home, and of the rest the one with the most space. A root of one's own beside other users'.
find_candidates() {
    CANDIDATES=
    if real "$root" && below "$REAL$REST"; then
        CANDIDATES="$root$TAB$SHARED$NEWLINE"
    fi
    [ -n "$chosen" ] || CANDIDATES=$CANDIDATES$(list_mounts | sort -t "$TAB" -k1,1nr -k2,2nr -k3,3 | cut -f 3-)$NEWLINE
}

list_mounts() {
    while IFS=$TAB read -r source destination; do
        own=$source/rlx-$(id -un) rank=0
        case $source/ in
            "$home"/*) own=$source/rlx rank=1 ;;
            */volumes/*/_data/) rank=-1 ;;
        esac
        [ ! -d "$own/runs" ] || rank=2
        space=$(df -Pk "$source" 2>/dev/null | awk 'NR == 2 { print $4 }')
        printf '%s\t%s\t%s\t%s\n' "$rank" "${space:-0}" "$own" "${destination%/}/${own##*/}"
    done <"$mounts"
}

# ---- trying it -----------------------------------------------------------------------------------------------------

# Another user may have made a default folder, to get what is put there. What we make ourselves shows our
# uid: a file server may map us to `nobody`.
same_owner() { [ "$(stat -c %u "$1")" = "$(stat -c %u "$2")" ]; }

# In each candidate a folder with a word in it; the container is to read the word and to answer beside it.
prepare_probes() {
    PROBES=''
    while IFS=$TAB read -r outside inside; do
        if [ -z "$outside" ] || ! real "$outside"; then continue; fi
        probe=$(mktemp -d "$REAL/.rlx-probe-XXXXXX" 2>/dev/null) || continue
        if [ "$outside" != "$root" ] && [ -z "$REST" ] && ! same_owner "$REAL" "$probe"; then
            rmdir "$probe"
            continue
        fi
        printf '%s\n' "${probe##*/}" >"$probe/word"
        PROBES="$PROBES$probe$TAB$outside$TAB$inside$TAB${inside%"$REST"}/${probe##*/}$NEWLINE"
    done <"$candidates"
}

# One visit: who the container's user is, what is installed, and which probes it can use. For runs that will lie in the
# container itself, what kind of storage the root is there, and whether it can be written.
# shellcheck disable=SC2016 # the container's shell expands it
VISIT='
umask 022
echo "user $(id -u)"
for tool in bash setsid grep od mktemp stat tail flock tar gzip; do
    ! command -v "$tool" >/dev/null || echo "tool $tool"
done
case $0 in "~" | "~/"*) root=${HOME:-/}${0#"~"} ;; *) root=$0 ;; esac
[ ! -d "$root/runs" ] || echo "runs inside"
until [ -d "$root" ]; do root=${root%/*} root=${root:-/}; done
echo "storage $(stat -f -c %T "$root" 2>/dev/null)"
[ ! -w "$root" ] || echo "writable yes"
for probe in "$@"; do
    case $(stat -f -c %T "$probe" 2>/dev/null) in tmpfs | ramfs) continue ;; esac
    { read -r word <"$probe/word" && echo "$word" >"$probe/answer"; } 2>/dev/null
done
'

visit() {
    set --
    while IFS=$TAB read -r _ _ _ inner; do set -- "$@" "$inner"; done <"$probes"
    answer=$(ask exec "$id" sh -c "$VISIT$more${NEWLINE}exit 0" "$asked" "$@" 2>&1) || error no-shell "${answer##*"$NEWLINE"}"
    printf '%s\n' "$answer"
}

choose() {
    while IFS=$TAB read -r probe outside inside _; do
        answered "$probe" || continue
        say_root
        return
    done <"$probes"
    [ ! -s "$candidates" ] || printf 'unusable %s\n' "$(cut -f 1 "$candidates" | tr '\n' ' ')"
}

# The first folder that has runs, by the same preference; with none, that of the next launch, as far as one can tell.
find_runs() {
    for whose in own any; do
        while IFS=$TAB read -r outside inside; do
            [ -n "$outside" ] && [ -d "$outside/runs" ] || continue
            [ "$whose" = any ] || [ "$outside" = "$root" ] || same_owner "$outside" "$work" || continue
            say_root
            return
        done <"$candidates"
    done
    case $answer in *"${NEWLINE}runs inside"*) return ;; esac
    IFS=$TAB read -r outside inside <"$candidates"
    [ -z "$outside" ] || say_root
}

say_root() {
    [ "$outside" != "$root" ] || outside=$asked
    printf 'root %s\ncontainer_root %s\n' "$outside" "$inside"
    [ -z "$after" ] || sh -c "$after" locate.sh "$outside" </dev/null
}

answered() {
    word='' answer=
    { read -r word <"$1/word" && read -r answer <"$1/answer"; } 2>/dev/null
    [ -n "$word" ] && [ "$word" = "$answer" ]
}

clean() {
    cut -f 1 "$probes" | while IFS= read -r probe; do rm -rf "$probe"; done
    rm -rf "$work"
}

home=$(cd -P -- "${HOME:?}" && pwd -P)
asked=$2 fields=${4-} more=${5-} after=${6-}
# shellcheck disable=SC2088 # the tilde is text here
case $asked in
    '~/rlx') root=$HOME/rlx chosen='' ;;
    '~' | '~/'*) root=$HOME${asked#'~'} chosen=1 ;;
    *) root=$asked chosen=1 ;;
esac
inspect "$1"
work=$(mktemp -d) || error refused "cannot write to ${TMPDIR:-/tmp}"
mounts=$work/mounts candidates=$work/candidates probes=$work/probes
trap clean EXIT
# PIPE: a shell complains of the children that it sees killed, to a reader who is gone.
trap 'exit 143' HUP INT PIPE TERM
: >"$probes"
find_mounts
printf %s "$MOUNTS" >"$mounts"
find_candidates
printf %s "$CANDIDATES" >"$candidates"
if [ "$3" = look ]; then
    visit
    find_runs
else
    prepare_probes
    printf %s "$PROBES" >"$probes"
    visit
    choose
fi
