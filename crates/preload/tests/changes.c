/* Whatever another process does to a file shows in the next read and the next fstat of one that has looked at it before. Two processes take turns by pipes. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

static char path[4096], other[4096];
static int ask[2], answer[2];

static void turn(char which) { char back; write(ask[1], &which, 1); if (read(answer[0], &back, 1) != 1) _exit(9); }

static void changes(int file, char which) {
    char data[8192];
    memset(data, which, sizeof data);
    int done = 0;
    switch (which) {
    case 'a': done = pwrite(file, data, 100, 50) == 100; break;
    case 'b': { int f = open(path, O_WRONLY | O_APPEND); done = write(f, data, 8192) == 8192; close(f); break; }
    case 'c': done = !ftruncate(file, 5000); break;
    case 'd': done = !fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096); break;
    case 'e': done = !fallocate(file, 0, 0, 9000); break;
    case 'f': done = !truncate(path, 700); break;
    case 'g': done = !chmod(path, 0600); break;
    case 'h': { struct timespec t[2] = {{5, 0}, {6, 0}}; done = !futimens(file, t); break; }
    case 'i': done = !link(path, other); break;
    case 'j': done = !unlink(other); break;
    case 'k': done = !fallocate(file, FALLOC_FL_ZERO_RANGE, 100, 200); break;
    case 'l': { int f = open(path, O_WRONLY | O_TRUNC); done = f >= 0 && write(f, data, 10) == 10; close(f); break; }
    case 'm': { char *at = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
                if (at != MAP_FAILED) { memset(at, 'M', 10); done = !msync(at, 4096, MS_SYNC) && !munmap(at, 4096); } break; }
    case 'n': { int f = open(other, O_RDWR | O_CREAT, 0644); write(f, "new", 3); close(f); done = !rename(other, path); break; }
    }
    if (!done) { printf("%c failed %d\n", which, errno); fflush(stdout); }
}

static void child(void) {
    int file = open(path, O_RDWR);
    char which;
    while (read(ask[0], &which, 1) == 1) { changes(file, which); write(answer[1], &which, 1); }
    _exit(0);
}

static unsigned long sum(int file) {
    static char data[32768];
    ssize_t bytes = pread(file, data, sizeof data, 0);
    unsigned long all = bytes;
    for (ssize_t i = 0; i < bytes; i++) all = all * 31 + (unsigned char)data[i];
    return all;
}

static void tell(int file, const char *when) {
    struct stat s;
    fstat(file, &s);
    printf("%s: %ld bytes, end %ld, mode %o, %ld names, modified %s, sum %lx\n", when, (long)s.st_size, (long)lseek(file, 0, SEEK_END), s.st_mode & 07777,
        (long)s.st_nlink, s.st_mtime == 6 ? "then" : "now", sum(file));
    struct stat named;
    int is_there = !stat(path, &named), has_other = !access(other, F_OK), may = !access(path, R_OK), f = open(other, O_RDONLY);
    printf("named: %d %d %d %d, %ld bytes, mode %o, %ld names, %s\n", is_there, has_other, may, f >= 0, (long)named.st_size, named.st_mode & 07777, (long)named.st_nlink,
        named.st_ino == s.st_ino ? "the same" : "another");
    if (f >= 0) close(f);
}

int main(int count, char **words) {
    snprintf(path, sizeof path, "%s/changed", words[1]);
    snprintf(other, sizeof other, "%s/other", words[1]);
    if (pipe(ask) || pipe(answer)) return 1;
    int file = open(path, O_RDWR | O_CREAT, 0644);
    char data[6000];
    memset(data, 'z', sizeof data);
    write(file, data, sizeof data);
    pid_t pid = fork();
    if (pid == 0) { close(ask[1]); child(); }
    close(ask[0]);
    for (int round = 0; round < 3; round++) {
        tell(file, "before");
        for (const char *which = "abcdabefghijkbl"; *which; which++) {
            /* What was asked for twice is kept. */
            for (int i = 0; i < 3; i++) { struct stat s; fstat(file, &s); sum(file); }
            turn(*which);
            char when[2] = {*which, 0};
            tell(file, when);
        }
        turn('m');
        tell(file, "m");
        /* Its own changes, too. */
        pwrite(file, "own", 3, 5000 + round); tell(file, "own write");
        ftruncate(file, 4999); tell(file, "own cut");
        pwrite(file, "far", 3, 20000); tell(file, "own gap");
        fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096); tell(file, "own hole");
        fchmod(file, 0640); tell(file, "own mode");
        link(path, other); tell(file, "own link");
        unlink(other); tell(file, "own unlink");
        int again = open(path, O_RDWR | O_TRUNC); tell(file, "own open"); close(again);
        pwrite(file, data, 6000, 0);
        truncate(path, 5555); tell(file, "own truncate");
        turn('g');
    }
    turn('n');
    tell(file, "n");
    close(ask[1]);
    waitpid(pid, 0, 0);
    return 0;
}
