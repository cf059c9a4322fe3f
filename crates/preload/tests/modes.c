/* One process writes by descriptors of all kinds, and cuts; another one, which has the file in its cache, finds each change when the call has
   returned, and so does the first. At times it is killed then, and a new one goes on. Prints what is wrong. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#define BLOCK 512
#define MOST (64 * 1024)
static const int KINDS[] = {0, O_SYNC, O_DSYNC, O_DIRECT, O_APPEND, O_APPEND | O_SYNC};
#define COUNT (int)(sizeof KINDS / sizeof *KINDS)
static struct shared { char expected[MOST]; long bytes; int wrong, calls; } *all;

static void expect(int holds, const char *what, long found) {
    if (holds) return;
    if (all->wrong++ < 10) fprintf(stderr, "wrong: %s, %ld, errno %d\n", what, found, errno);
}
static void look(int fd, const char *who) {
    static char found[MOST + BLOCK] __attribute__((aligned(4096)));
    struct stat stat;
    long bytes = pread(fd, found, sizeof found, 0);
    expect(bytes == all->bytes, who, bytes);
    expect(bytes < 0 || !memcmp(found, all->expected, bytes), who, -1);
    expect(fstat(fd, &stat) == 0 && stat.st_size == all->bytes, who, stat.st_size);
    expect(lseek(fd, 0, SEEK_END) == all->bytes, who, -2);
}
static void wrote(long at, long bytes, char value) {
    memset(all->expected + at, value, bytes);
    if (at + bytes > all->bytes) all->bytes = at + bytes;
    all->calls++;
}
static void change(int kind, int round, char *block) {
    int fd = open("file", O_RDWR | KINDS[kind]), appends = KINDS[kind] & O_APPEND;
    long end = all->bytes, at = appends ? end : (round * 7 % 40) * BLOCK;
    char value = 'a' + round % 26;
    expect(fd >= 0, "open", kind);
    memset(block, value, 8 * BLOCK);
    if (at > end) at = end / BLOCK * BLOCK;
    long bytes = (1 + round % 8) * BLOCK;
    struct iovec two[2] = {{block, bytes / 2}, {block + bytes / 2, bytes - bytes / 2}};
    long done = KINDS[kind] == O_DIRECT || round % 2 ? pwrite(fd, block, bytes, at) : pwritev(fd, two, 2, at);
    expect(done == bytes, "write", done);
    wrote(at, bytes, value);
    /* Some bytes of a page that was written now. */
    if (KINDS[kind] != O_DIRECT && !appends) {
        expect(pwrite(fd, "+++", 3, at + 100) == 3, "write of some", at);
        wrote(at + 100, 3, '+');
    }
    look(fd, "the writer finds");
    if (all->bytes > MOST - 16 * BLOCK) {
        expect(ftruncate(fd, 3 * BLOCK) == 0, "cut", 0);
        all->bytes = 3 * BLOCK;
        expect(ftruncate(fd, 5 * BLOCK) == 0, "lengthen", 0);
        wrote(3 * BLOCK, 2 * BLOCK, 0);
        look(fd, "the writer finds what it has cut");
    }
    if (round % 5 == 0) expect((round % 2 ? fsync(fd) : fdatasync(fd)) == 0, "sync", round);
    if (round % 3) close(fd);
}
int main(int argc, char **argv) {
    char go = 0;
    all = mmap(0, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (chdir(argv[1])) return 1;
    int reader = open("file", O_RDWR | O_CREAT, 0644);
    for (int process = 0; process < 8; process++) {
        int ask[2], answer[2];
        if (pipe(ask) || pipe(answer)) return 1;
        pid_t writer = fork();
        if (writer == 0) {
            char *block = aligned_alloc(4096, 8 * BLOCK);
            for (int round = process * 31; read(ask[0], &go, 1) == 1; round++) {
                change(round % COUNT, round, block);
                if (write(answer[1], &go, 1) != 1) break;
            }
            _exit(1);
        }
        for (int round = 0; round < 30; round++) {
            if (write(ask[1], &go, 1) != 1 || read(answer[0], &go, 1) != 1) return 1;
            if (round == 29) kill(writer, SIGKILL), waitpid(writer, 0, 0);
            look(reader, "another one finds");
        }
        for (int end = 0; end < 2; end++) close(ask[end]), close(answer[end]);
    }
    printf("%d wrong; enough: %d\n", all->wrong, all->calls > 300);
}
