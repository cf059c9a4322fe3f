# What coreutils, findutils, tar and grep make of files, in the directory that this is run in. It prints the same on any file
# system: .ci/files-suites compares the machine's own with a drive.
umask 022
export LC_ALL=C TZ=UTC
seen() { (cd "$1" && find . -printf '%y %m %n %l %P\n' | sort && find . -type f | sort | xargs sha256sum); }

mkdir -p tree/{a/b/c,d,empty}
seq 1 20000 >tree/numbers
seq 20000 -1 1 >tree/a/backwards
head -c 300000 /dev/zero | tr '\0' 'x' >tree/a/b/x
printf '#!/bin/sh\necho "$0" | sed "s,.*/,," "$@"\n' >tree/script
chmod 750 tree/script
ln -s numbers tree/link
ln -s ../a tree/d/to-a
ln -s nowhere tree/broken
ln tree/numbers tree/d/hard
mkfifo tree/pipe
touch -d '2020-02-02 02:02:02.123456789' tree/a/backwards tree/a
chmod 1777 tree/empty
truncate -s 1M tree/hole
printf end | dd of=tree/hole bs=1 seek=700000 conv=notrunc status=none

echo "== cp"
cp -a tree copy && seen copy
stat -c '%n %s %a %h' copy/a/backwards copy/hole copy/script copy/d/hard; stat -c %Y copy/a/backwards
[ copy/numbers -ef copy/d/hard ] && echo linked
cp -r --no-preserve=mode,timestamps tree/a plain && seen plain
cp -L tree/link followed && cmp followed tree/numbers && echo followed
cp -u tree/numbers copy/numbers; cp -l tree/a/b/x hard-x && stat -c %h hard-x
cp --backup=numbered tree/script hard-x && ls hard-x*
cp --sparse=always tree/hole sparse && cmp sparse tree/hole && du --block-size=1K sparse | awk '{ print $1 < 1024 ? "sparse" : "full" }'
cp --reflink=auto tree/numbers reflink && cmp reflink tree/numbers && echo reflinked
cp tree copy 2>&1; cp none copy 2>&1; cp tree/numbers tree/numbers 2>&1 | sed 's/.*are/are/'

echo "== mv"
mv copy/a copy/moved && mv -n tree/script copy/script; ls tree/script
mv copy/d copy/numbers copy/moved && seen copy/moved
mv copy copy/moved 2>&1 | sed 's/.*to a/to a/'
mv --exchange x y 2>/dev/null; mv -T plain renamed && ls -d plain renamed 2>&1
mv -f followed copy/moved/x && wc -c <copy/moved/x

echo "== ln, readlink, realpath"
ln -sr copy/moved/b b && readlink b && ln -sfn tree b && readlink b
ln tree none/x 2>&1; ln tree/numbers copy/moved/x 2>&1; ln -f tree/numbers copy/moved/x && stat -c %h tree/numbers
readlink -f tree/d/to-a | sed "s,$PWD,here,"; realpath --relative-to=tree tree/d/to-a/b; readlink -e tree/broken || echo none
link tree/numbers linked && unlink linked && ls linked 2>&1

echo "== du, df, ls, stat"
du -a --apparent-size -b tree/a | sort -k2 | awk '$2 !~ /a$|b$|c$/'
df . >/dev/null && df --output=target . | wc -l
ls -lR --time-style=+%s tree | sed 's/^total.*/total/' | awk '/^d/ { $5 = $6 = "" } /^[-lp]/ { if ($6 != 1580608922) $6 = "now" } { $3 = $4 = ""; print }'
ls -i tree/numbers tree/d/hard | awk '{ print $1 }' | uniq | wc -l
stat -f -c %T . >/dev/null && stat -c '%F %A %N' tree/link tree/pipe tree/empty tree/hole

echo "== split, csplit, join, sort"
split -l 3000 tree/numbers part- && ls part-* && cat part-* | cmp - tree/numbers && echo whole
split -n 3 -d tree/numbers n- && cat n-* | cmp - tree/numbers && echo whole
csplit -s tree/numbers 100 10000 && wc -l xx*
sort -n -o tree/a/backwards tree/a/backwards && cmp tree/a/backwards tree/numbers && echo sorted
sort -R --random-source=tree/numbers -S 50K -T . tree/numbers | sort -n -S 100K -T . --parallel=2 | cmp - tree/numbers && echo again
shuf --random-source=tree/a/b/x -n 5 tree/numbers; shuf -o shuffled --random-source=tree/numbers tree/numbers && sort -n shuffled | cmp - tree/numbers && echo shuffled
comm -12 <(sort tree/numbers) <(sort part-aa) | wc -l; join <(sort part-aa) <(sort part-aa) | wc -l; uniq -c xx00 | tail -n 1

echo "== tee, dd, truncate, tac, head, tail"
seq 5 | tee one two >/dev/null; seq 5 | tee -a one >/dev/null; cat one two | tr '\n' ' '
dd if=tree/numbers of=dd bs=4K count=5 skip=1 seek=2 status=none && sha256sum dd
dd if=tree/numbers of=dd bs=1000 seek=1 count=1 conv=notrunc,fsync status=none && sha256sum dd
dd if=tree/numbers of=direct bs=4096 oflag=append conv=notrunc status=none && cmp direct tree/numbers && echo appended
truncate -s -100 dd && stat -c %s dd && truncate -s %4096 dd && stat -c %s dd && truncate -r one dd && stat -c %s dd
tac tree/numbers | head -n 2; tail -n 2 tree/numbers; tail -c +108890 tree/numbers; head -c -108890 tree/numbers; od -c one | head -n 2
: >followed-file; (for i in 1 2 3; do echo $i; sleep 0.2; done >>followed-file) & tail -n +1 --pid=$! -s 0.1 -f followed-file 2>/dev/null; wait
sync one && sync -f one && echo synced

echo "== install, mkdir, rmdir, mktemp, rm"
install -D -m 640 tree/script deep/er/script && stat -c %a deep/er/script && install -d -m 700 made && stat -c %a made
mkdir -p p/q/r && rmdir -p p/q/r && ls -d p 2>&1; rmdir tree 2>&1
mktemp -p . XXXXXXXX >/dev/null && mktemp -d -p . dir.XXXX >/dev/null && ls | grep -cE '^(dir\..{4}|[A-Za-z0-9]{8})$' >/dev/null && echo made
chmod -R go-rwx deep && seen deep; chmod --reference=tree/script deep/er && stat -c %a deep/er
touch -r tree/a/backwards stamp && touch -a -d @5 stamp && stat -c %X stamp; chown "$(id -u):$(id -g)" stamp && chown -Rh "$(id -u)" deep && echo owned
rm -r deep made && rm -f none && rm tree 2>&1; shred -u -n 1 dd && ls dd 2>&1
setfattr -n user.kind -v note one 2>/dev/null && cp --preserve=xattr one attributed && getfattr -n user.kind --only-values attributed && echo

echo "== find, grep, tar, diff, xargs"
find tree -newer tree/a/backwards -type f | sort; find tree -size +200k | sort; find -L tree -name 'x' | sort; find tree -empty | sort
find tree -name hole -exec cp {} found \; -delete; ls found tree/hole 2>&1
grep -rlw 19999 tree | sort; grep -c 1 tree/numbers
tar cf all.tar --sort=name tree && tar tf all.tar | sha256sum && mkdir out && tar xpf all.tar -C out && diff -r tree out/tree 2>&1 | grep -v fifo; seen out/tree | sha256sum
tar czf all.tgz tree/a && tar xOzf all.tgz tree/a/backwards | cmp - tree/numbers && echo packed; tar --delete -f all.tar tree/a/b/x && tar tf all.tar | wc -l
diff <(seq 10) <(seq 2 11) >patched; seq 10 >ten && patch -s ten <patched && cat ten | tr '\n' ' '
(cd tree && find . -type f | sort | xargs sha256sum) >sums && (cd tree && sha256sum -c --quiet ../sums) && echo "sums agree"
gzip -k9 tree/a/backwards && gunzip -c tree/a/backwards.gz | cmp - tree/numbers && xz -zk0 tree/a/backwards && xzcat tree/a/backwards.xz | cmp - tree/numbers && echo compressed
sed -i 's/^1/one/' ten && cat ten | tr '\n' ' '; awk '{ print > ("by-" NR % 3) }' ten && cat by-*
rm -rf -- * && ls -A | grep -v '^.out' | wc -l
