#!/bin/sh
# Runs a command as a pod of the chart runs it, without a container runtime: in a mount namespace of its own, with a root
# that nobody can write to, as a user without capabilities who can gain none.
#   unshare --mount sh pod.sh ROOT USER ENVIRONMENT SETTINGS SECRETS RUN COMMAND…
# ENVIRONMENT keeps its path. SETTINGS is /etc/sluice, SECRETS /etc/sluice/secrets if it is not "-", RUN /run/sluice.
set -eu
PATH="$PATH:/usr/sbin:/sbin"
root=$1 user=$2 environment=$3 settings=$4 secrets=$5 run=$6
shift 6
mount --make-rprivate /
mount -t tmpfs -o mode=0755 none "$root"
cp -a /bin /sbin /lib "$root/"
[ ! -e /lib64 ] || cp -a /lib64 "$root/"
mkdir -p "$root/usr" "$root/dev" "$root/proc" "$root/tmp" "$root/run/sluice" "$root/etc"
cp -a /etc/passwd /etc/group /etc/hosts /etc/nsswitch.conf "$root/etc/"
[ ! -e /etc/ssl ] || cp -a /etc/ssl "$root/etc/"
mkdir -p "$root/etc/sluice"
mount --bind /usr "$root/usr"
mount --rbind /dev "$root/dev"
mount --rbind /proc "$root/proc"
mount -t tmpfs -o mode=1777 none "$root/tmp"
mkdir -p "$root$environment"
mount --bind "$environment" "$root$environment"
mount --bind "$settings" "$root/etc/sluice"
[ "$secrets" = - ] || mount --bind "$secrets" "$root/etc/sluice/secrets"
mount --bind "$run" "$root/run/sluice"
for one in / /usr "$environment" /etc/sluice; do mount -o remount,ro,bind "$root$one"; done
exec chroot "$root" setpriv --reuid "$user" --regid "$user" --clear-groups --inh-caps=-all --bounding-set=-all \
    --no-new-privs "$@"
