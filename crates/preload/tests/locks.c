// Locks of a process that is alone with its file for a while, and then is not: what others get, and what is left when
// descriptors are closed, processes are started, stopped or killed.

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

static char path[4096];
static char *self;

static int lock_by(int fd, int command, short type, off_t from, off_t bytes) {
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = from, .l_len = bytes};
    return fcntl(fd, command, &lock) == 0 ? 0 : errno;
}

static int lock(int fd, short type, off_t from, off_t bytes) { return lock_by(fd, F_SETLK, type, from, bytes); }

static void say(const char *what, int got) { printf("%s: %s\n", what, got ? strerrorname_np(got) : "done"); }

// Alone for a while: a lock of one byte, again and again.
static void be_alone(int fd) {
    int failed = 0;
    for (int round = 0; round < 30; round++) {
        failed += lock(fd, F_WRLCK, 1000, 1) != 0;
        failed += lock(fd, F_RDLCK, 1000, 1) != 0;
        failed += lock(fd, F_UNLCK, 1000, 1) != 0;
    }
    say("alone", failed);
}

// Whether another process gets a lock: one that is forked, or one that is a program of its own.
static int other_gets(int is_program, short type, off_t from, off_t bytes) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        if (is_program) {
            char words[4][32];
            sprintf(words[0], "%d", type), sprintf(words[1], "%ld", from), sprintf(words[2], "%ld", bytes);
            execl("/proc/self/exe", self, "try", path, words[0], words[1], words[2], (char *)0);
            _exit(99);
        }
        int fd = open(path, O_RDWR);
        _exit(fd < 0 ? errno : lock(fd, type, from, bytes));
    }
    int status;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000;
}

static void others(const char *what, short type, off_t from, off_t bytes) {
    printf("%s: fork %d program %d\n", what, other_gets(0, type, from, bytes), other_gets(1, type, from, bytes));
}

// What is in the way of a lock of all bytes, as a child sees it.
static void look_from_child(void) {
    fflush(stdout);
    if (fork() == 0) {
        int fd = open(path, O_RDWR);
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        fcntl(fd, F_GETLK, &lock);
        printf("looked: type %d from %ld bytes %ld\n", lock.l_type, (long)lock.l_start, (long)lock.l_len);
        fflush(stdout);
        _exit(0);
    }
    wait(NULL);
}

static void ranges(int fd) {
    say("exclusive", lock(fd, F_WRLCK, 10, 10));
    say("shared", lock(fd, F_RDLCK, 30, 10));
    say("to the end", lock(fd, F_WRLCK, 500, 0));
    look_from_child();
    others("in the exclusive one", F_RDLCK, 19, 1);
    others("shared, in the shared one", F_RDLCK, 35, 1);
    others("exclusive, in the shared one", F_WRLCK, 35, 1);
    others("far behind", F_RDLCK, 1 << 20, 1);
    others("between", F_WRLCK, 20, 10);
    say("a hole", lock(fd, F_UNLCK, 12, 2));
    others("in the hole", F_WRLCK, 12, 2);
    others("beside it", F_WRLCK, 14, 1);
    say("turned", lock(fd, F_RDLCK, 10, 10));
    others("in what was turned", F_RDLCK, 10, 10);
}

static void closing(int fd) {
    say("before", lock(fd, F_WRLCK, 0, 0));
    others("locked", F_RDLCK, 0, 1);
    close(open(path, O_RDONLY));
    others("after another descriptor was closed", F_WRLCK, 0, 0);
    say("again", lock(fd, F_WRLCK, 0, 0));
    close(dup(fd));
    others("after a duplicate was closed", F_WRLCK, 0, 0);
}

static void descriptions(int fd) {
    int one = open(path, O_RDWR), two = open(path, O_RDWR);
    for (int round = 0; round < 10; round++) {
        lock_by(one, F_OFD_SETLK, F_WRLCK, 0, 5);
        lock_by(one, F_OFD_SETLK, F_UNLCK, 0, 5);
    }
    say("of a description", lock_by(one, F_OFD_SETLK, F_WRLCK, 0, 5));
    say("of another", lock_by(two, F_OFD_SETLK, F_RDLCK, 4, 5));
    say("of the process", lock(fd, F_RDLCK, 4, 5));
    say("of another, behind", lock_by(two, F_OFD_SETLK, F_RDLCK, 5, 5));
    int same = dup(one);
    close(one);
    say("by its duplicate", lock_by(same, F_OFD_SETLK, F_WRLCK, 0, 5));
    others("while the duplicate is there", F_RDLCK, 0, 1);
    close(same);
    others("and when it is not", F_WRLCK, 0, 1);
    others("but of the other", F_WRLCK, 5, 1);
    close(two);
    others("nothing is left", F_WRLCK, 0, 0);
    one = open(path, O_RDONLY), two = open(path, O_RDONLY);
    say("exclusive, only read", lock(one, F_WRLCK, 0, 1));
    for (int round = 0; round < 10; round++) {
        flock(one, LOCK_EX), flock(one, LOCK_UN);
    }
    printf("flock %d", flock(one, LOCK_EX | LOCK_NB));
    printf(" %d", flock(two, LOCK_SH | LOCK_NB));
    printf(" %d", flock(one, LOCK_SH | LOCK_NB));
    printf(" %d", flock(two, LOCK_SH | LOCK_NB));
    printf(" %d", flock(one, LOCK_EX | LOCK_NB));
    printf(" %d\n", flock(two, LOCK_EX | LOCK_NB));
    close(one), close(two);
}

// A child that has a lock of its own, until it is ended; it has granted it to itself.
static pid_t holder(off_t from) {
    int told[2];
    char byte;
    pipe(told);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        int fd = open(path, O_RDWR);
        for (int round = 0; round < 10; round++) {
            lock(fd, F_WRLCK, from, 5), lock(fd, F_UNLCK, from, 5);
        }
        byte = lock(fd, F_WRLCK, from, 5);
        write(told[1], &byte, 1);
        for (;;) pause();
    }
    read(told[0], &byte, 1);
    close(told[0]), close(told[1]);
    say("the child", byte);
    return child;
}

static void ended(int fd) {
    int status;
    pid_t child = holder(40);
    say("while it is there", lock(fd, F_WRLCK, 44, 1));
    kill(child, SIGSTOP);
    waitpid(child, &status, WUNTRACED);
    say("while it is stopped", lock(fd, F_RDLCK, 40, 1));
    say("beside it", lock(fd, F_WRLCK, 45, 5));
    kill(child, SIGKILL);
    say("waits for its end", lock_by(fd, F_SETLKW, F_WRLCK, 40, 5));
    waitpid(child, &status, 0);
    say("nothing", lock(fd, F_UNLCK, 0, 0));
    // Stopped before anybody has asked for what it has.
    child = holder(70);
    kill(child, SIGSTOP);
    waitpid(child, &status, WUNTRACED);
    say("stopped before", lock(fd, F_WRLCK, 70, 1));
    kill(child, SIGCONT);
    kill(child, SIGTERM);
    say("waits again", lock_by(fd, F_SETLKW, F_WRLCK, 70, 5));
    waitpid(child, &status, 0);
}

// Two processes add to one number under a lock, each with the file alone at times.
static void counted(int fd) {
    long number = 0;
    pwrite(fd, &number, sizeof number, 0);
    fflush(stdout);
    for (int child = 0; child < 3; child++) {
        if (fork() == 0) {
            int fd = open(path, O_RDWR);
            int failed = 0;
            for (int round = 0; round < 200; round++) {
                failed += lock_by(fd, F_SETLKW, F_WRLCK, 1 << 20, 1) != 0;
                failed += pread(fd, &number, sizeof number, 0) != sizeof number;
                number++;
                failed += pwrite(fd, &number, sizeof number, 0) != sizeof number;
                failed += lock(fd, F_UNLCK, 1 << 20, 1) != 0;
                if (round % 50 == 49) usleep(3000 * (child + 1));
            }
            _exit(failed != 0);
        }
    }
    int status, failed = 0;
    while (wait(&status) > 0) failed += status != 0;
    pread(fd, &number, sizeof number, 0);
    printf("counted %ld, %d failed\n", number, failed);
}

int main(int count, char **words) {
    if (count == 6 && strcmp(words[1], "try") == 0) {
        int fd = open(words[2], O_RDWR);
        return fd < 0 ? errno : lock(fd, atoi(words[3]), atol(words[4]), atol(words[5]));
    }
    self = words[0];
    snprintf(path, sizeof path, "%s/locked", words[1]);
    int fd = open(path, O_RDWR | O_CREAT, 0644);
    be_alone(fd);
    ranges(fd);
    be_alone(fd);
    say("nothing", lock(fd, F_UNLCK, 0, 0));
    be_alone(fd);
    closing(fd);
    be_alone(fd);
    say("nothing", lock(fd, F_UNLCK, 0, 0));
    descriptions(fd);
    say("nothing", lock(fd, F_UNLCK, 0, 0));
    ended(fd);
    say("nothing", lock(fd, F_UNLCK, 0, 0));
    counted(fd);
    return 0;
}
