#!/bin/bash
# First process of a machine of the rig, in fresh namespaces: gives it files of its own, then waits for its end.
#
#   boot.sh host|client NAME FOLDER [KEPT...]
#
# Prints its pid as the caller knows it. Ends when stdin ends, so also when the owner of the rig is killed; as pid 1 of a
# host it takes all processes of the host along. It is bash because bash reaps the orphans that pid 1 inherits.
set -euo pipefail
kind=$1 name=$2 folder=$3
shift 3

read -r pid _ </proc/self/stat # before /proc becomes the host's own
echo "$name" >/proc/sys/kernel/hostname

# Folders that the tests share with the machine stay reachable when what they lie in is covered.
for kept; do
    mkdir -p "$folder$kept"
    mount --rbind "$kept" "$folder$kept"
    [ "$kind" != host ] || mount -o remount,bind,ro "$folder$kept"
done

if [ "$kind" = host ]; then
    mkdir -p "$folder/srv/shared"
    mount --bind "${folder%/*}/shared" "$folder/srv/shared"
fi

mount -t tmpfs -o mode=755 tmpfs /run
mkdir /run/{etc,files,sshd}
mount --bind /etc /run/etc
mount -o remount,bind,ro /run/etc
mount --rbind "$folder" /run/files # since the folder itself lies in what is about to be covered

private_devices() {
    local new=/run/files/dev
    mount -t tmpfs -o mode=755 tmpfs "$new"
    cp -a /dev/{null,zero,full,random,urandom,tty} "$new"
    mkdir "$new"/{pts,shm}
    ln -s /proc/self/fd "$new/fd"
    ln -s fd/0 "$new/stdin"
    ln -s fd/1 "$new/stdout"
    ln -s fd/2 "$new/stderr"
    ln -s pts/ptmx "$new/ptmx"
    mount -t devpts -o newinstance,ptmxmode=666,mode=620 devpts "$new/pts"
    mount -t tmpfs -o mode=1777 tmpfs "$new/shm"
}

covered="etc root tmp"
if [ "$kind" = host ]; then
    private_devices
    covered="$covered var/tmp home srv usr/local/sbin dev"
fi
for own in $covered; do
    mount --rbind "/run/files/$own" "/$own"
done

if [ "$kind" = host ]; then
    mkdir /run/docker-data
    mount --bind /run/files/docker /run/docker-data
    mount -t proc proc /proc
    mount -o remount,bind,ro / # what is not the host's own is the machine's that runs the tests
    /usr/sbin/sshd -E /run/sshd.log
    until [ -s /run/sshd.pid ]; do sleep 0.01; done
fi
umount --lazy /run/files

echo "$pid"
while read -r _; do :; done
