#!/bin/sh
# Tells of a log that rlx does not write itself: what is new in it, and whether a process still writes. POSIX sh on Linux.
#
#   sh -s -- PATH INODE FROM SUM MOST MARK
#
# It comes on stdin and reads only. INODE, FROM and SUM say how far a copy elsewhere goes: that many bytes of that file,
# and the checksum of the last of them. The answer is one line and then data, at most MOST bytes of the log:
#
#   MARK gone|denied|other
#   MARK log <inode> <from> <to> <sum> <bytes> <changed> <now> <writers> plain|gzip
#
# <from> is 0 if this is not the file that the copy is of; <sum> is for a copy up to <to>; <bytes> is how long the log
# is, <changed> and <now> are seconds since 1970. <writers> counts the processes that have it open for writing; - if
# there is none to be seen, but may be one. MARK is a random word that tells the line from what a shell's start may print.
set -u
export LC_ALL=C

path=$1 inode=$2 from=$3 sum=$4 most=$5 mark=$6
# shellcheck disable=SC2088 # the tilde is text here, and becomes this host's home
case $path in '~/'*) path=${HOME:?}${path#'~'} ;; esac

none() {
    echo "$mark $1"
    exit 0
}

# The bytes from $1 to $2.
piece() { [ "$1" -ge "$2" ] || tail -c "+$(($1 + 1))" "$path" | head -c "$(($2 - $1))"; }

# Of the last 4096 bytes before $1, in SUM.
sum() {
    begin=$(($1 - 4096))
    [ "$begin" -gt 0 ] || begin=0
    SUM=$(piece "$begin" "$1" | cksum)
    SUM=${SUM%% *}
}

# In WRITERS. The names that processes have for an open file differ between containers; device and inode do not.
count_writers() {
    WRITERS=0
    # shellcheck disable=SC2044 # no name below fd has a blank
    for open in $(find -L /proc/[0-9]*/fd -maxdepth 1 -inum "$1" 2>/dev/null); do
        [ "$(stat -L -c %d:%i "$open" 2>/dev/null)" = "$2:$1" ] || continue
        process=${open#/proc/}
        process=${process%%/*}
        # The last octal digit is the way it was opened: 0 reads, 1 and 2 write.
        flags=$(sed -n 's/^flags:[[:space:]]*//p' "/proc/$process/fdinfo/${open##*/}" 2>/dev/null)
        case $flags in *[12]) WRITERS=$((WRITERS + 1)) ;; esac
    done
    if [ "$WRITERS" -eq 0 ] && ! sees_all_writers; then WRITERS=-; fi
}

# Only root of the host itself sees every process: a file of one's own may be written by `sudo docker exec … >x.log`, and
# one in a container by the host or by another container. To a shared file system any machine may write.
sees_all_writers() {
    command -v find >/dev/null && [ "$(id -u)" -eq 0 ] || return
    [ "$(readlink /proc/self/ns/pid)" = 'pid:[4026531836]' ] || return
    case $(stat -f -c %T "$path" 2>/dev/null) in
        ext* | xfs | btrfs | f2fs | zfs | tmpfs | ramfs | overlayfs) ;;
        *) return 1 ;;
    esac
}

[ -e "$path" ] || none gone
[ -f "$path" ] || none other
[ -r "$path" ] || none denied
# Who writes comes before how much there is: after the last writer, nothing is added.
# numbers OF-GNU OF-BSD: what stat says in these letters.
numbers() {
    stat -L -c "$1" "$path" 2>/dev/null || stat -L -f "$2" "$path" 2>/dev/null ||
        { echo "the stat of this machine knows neither -c nor -f" >&2 && false; }
}

found=$(numbers '%i %d' '%i %d') || exit
# shellcheck disable=SC2086 # two numbers
set -- $found
now_inode=$1
count_writers "$1" "$2"
found=$(numbers '%s %Y' '%z %m') || exit
# shellcheck disable=SC2086
set -- $found
bytes=$1 changed=$2
if [ "$now_inode" != "$inode" ] || [ "$bytes" -lt "$from" ]; then
    from=0
elif [ "$from" -gt 0 ]; then
    sum "$from"
    [ "$SUM" = "$sum" ] || from=0
fi
to=$bytes
[ "$((to - from))" -le "$most" ] || to=$((from + most))
sum "$to"
how=plain
if command -v gzip >/dev/null; then how=gzip; fi
echo "$mark log $now_inode $from $to $SUM $bytes $changed $(date +%s) $WRITERS $how"
case $how in
    gzip) piece "$from" "$to" | gzip -1 ;;
    *) piece "$from" "$to" ;;
esac
