# The first process of a host: `sh init.sh NAME FOLDER MOUNTS TEST`, in namespaces that are already its own.
# FOLDER has the host's private folders and an empty one, `root`; each line of MOUNTS is `WHERE<tab>WHAT`: a folder
# that the host sees read-only. Says "ready" when everything else is out of sight.
set -e
name=$1 folder=$2 mounts=$3 test=$4

# What follows would be done to the machine itself, if a namespace were that of the TEST's process.
for kind in mnt uts ipc pid net; do
  if [ "$(readlink "/proc/self/ns/$kind")" = "$(readlink "/proc/$test/ns/$kind")" ]; then
    echo "the $kind namespace is not the host's own" >&2
    exit 1
  fi
done
root=$folder/root
cover() { mount --bind "$1" "$root$2"; }
show() { mount --bind -o ro "$1" "$root$2"; }

mount -t tmpfs -o size=1m,mode=755 tmpfs "$root"
cd "$root"
mkdir -p usr etc proc sys dev tmp var/tmp home/host run/user old
show /usr /usr
show /etc /etc
show "$folder/../hosts" /etc/hosts
for link in bin sbin lib lib32 lib64 libx32; do
  if [ -L "/$link" ]; then cp -P "/$link" "$link"; elif [ -d "/$link" ]; then mkdir "$link" && show "/$link" "/$link"; fi
done

# Of the devices, what programs need; a name made there by one host is seen by no other.
mount -t tmpfs -o size=64k,mode=755 tmpfs dev
mkdir dev/shm
for device in null zero full random urandom tty; do touch "dev/$device" && cover "/dev/$device" "/dev/$device"; done
ln -s /proc/self/fd dev/fd

cover "$folder/tmp" /tmp
cover "$folder/var-tmp" /var/tmp
cover "$folder/home" /home/host
cover "$folder/shm" /dev/shm
while IFS="$(printf '\t')" read -r where what; do
  mkdir -p "$root$where"
  show "$what" "$where"
done <"$mounts"

mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
pivot_root . old
umount -l /old
rmdir /old
mount -o remount,ro /dev
mount -o remount,ro /
hostname "$name"
echo ready
# Whoever loses its parent becomes a child of this process, and is gone when it ends.
trap '' CHLD
exec sleep infinity
