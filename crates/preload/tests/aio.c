/* Asynchronous reads and writes of files below the directory that it is given, and of others beside them. Nothing that it prints depends
 * on where that is. */
#define _GNU_SOURCE
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SAY(...) do { printf(__VA_ARGS__); fflush(stdout); } while (0)
#define CALL(call) do { errno = 0; long value_ = (long)(call); int error_ = errno; \
    SAY("%s:%d %s = %ld %s\n", __func__, __LINE__, #call, value_, value_ < 0 ? strerrorname_np(error_) : ""); } while (0)

static void set(struct aiocb *b, int fd, void *buffer, size_t bytes, off_t offset) {
    memset(b, 0, sizeof *b);
    b->aio_fildes = fd;
    b->aio_buf = buffer;
    b->aio_nbytes = bytes;
    b->aio_offset = offset;
    b->aio_sigevent.sigev_notify = SIGEV_NONE;
}

/* Waits for a request, and gives what came of it. A wait that succeeds may leave anything in errno. */
static long ended(struct aiocb *b) {
    const struct aiocb *one[1] = {b};
    while (aio_error(b) == EINPROGRESS) aio_suspend(one, 1, NULL);
    int error = aio_error(b);
    long value = aio_return(b);
    if (error) SAY("  error %s value %ld\n", strerrorname_np(error), value);
    errno = 0;
    return value;
}

static void contents(const char *path) {
    char text[512];
    int fd = open(path, O_RDONLY);
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    text[n < 0 ? 0 : n] = 0;
    SAY("  %s: %ld '%s'\n", path, (long)n, text);
    close(fd);
}

static void one_by_one(void) {
    struct aiocb b;
    char text[64] = "hello, world", back[64] = "";
    int fd = open("one", O_CREAT | O_RDWR, 0644);
    set(&b, fd, text, 12, 3);
    CALL(aio_write(&b));
    CALL(ended(&b));
    set(&b, fd, back, 60, 8);
    CALL(aio_read(&b));
    while (aio_error(&b) == EINPROGRESS) usleep(100);
    CALL(aio_error(&b));
    CALL(aio_return(&b));
    SAY("  '%s' offset %ld\n", back, (long)lseek(fd, 0, SEEK_CUR));
    set(&b, fd, back, 60, 100);
    CALL(aio_read(&b));
    CALL(ended(&b));
    set(&b, fd, NULL, 0, 0);
    CALL(aio_write(&b));
    CALL(ended(&b));
    CALL(aio_fsync(O_SYNC, &b));
    CALL(ended(&b));
    CALL(aio_fsync(O_DSYNC, &b));
    CALL(ended(&b));
    CALL(aio_fsync(O_RDWR, &b));
    struct aiocb64 large;
    memset(&large, 0, sizeof large);
    large.aio_fildes = fd, large.aio_buf = text, large.aio_nbytes = 3, large.aio_offset = 20;
    large.aio_sigevent.sigev_notify = SIGEV_NONE;
    CALL(aio_write64(&large));
    const struct aiocb64 *list[1] = {&large};
    while (aio_error64(&large) == EINPROGRESS) aio_suspend64(list, 1, NULL);
    CALL(aio_return64(&large));
    CALL(aio_cancel64(fd, &large));
    close(fd);
    contents("one");
}

static void errors(void) {
    struct aiocb b;
    char text[16] = "text";
    int reads = open("one", O_RDONLY), writes = open("one", O_WRONLY), directory = open(".", O_RDONLY | O_DIRECTORY);
    set(&b, reads, text, 4, 0);
    CALL(aio_write(&b));
    CALL(ended(&b));
    set(&b, writes, text, 4, 0);
    CALL(aio_read(&b));
    CALL(ended(&b));
    set(&b, writes, text, 4, -1);
    CALL(aio_write(&b));
    CALL(ended(&b));
    set(&b, directory, text, 4, 0);
    CALL(aio_read(&b));
    CALL(ended(&b));
    set(&b, reads, text, 4, 0);
    b.aio_reqprio = -1;
    CALL(aio_read(&b));
    b.aio_reqprio = 21;
    CALL(aio_read(&b));
    CALL(aio_error(&b));
    b.aio_reqprio = 20;
    CALL(aio_read(&b));
    CALL(ended(&b));
    set(&b, 777, text, 4, 0);
    CALL(aio_read(&b));
    CALL(ended(&b));
    CALL(aio_fsync(O_SYNC, &b));
    CALL(aio_cancel(777, NULL));
    CALL(aio_cancel(reads, NULL));
    set(&b, reads, text, 4, 0);
    CALL(aio_read(&b));
    CALL(ended(&b));
    CALL(aio_cancel(reads, &b));
    CALL(aio_cancel(writes, &b));
    const struct aiocb *none[2] = {NULL, NULL};
    CALL(aio_suspend(none, 2, NULL));
    const struct aiocb *two[2] = {NULL, &b};
    CALL(aio_suspend(two, 2, NULL));
    CALL(aio_suspend(two, -1, NULL));
    close(reads), close(writes), close(directory);
}

/* Writes at the end are done in the order in which they were made, and what makes durable comes after them. */
static void at_the_end(void) {
    struct aiocb all[40], sync;
    static char line[40][4];
    int fd = open("end", O_CREAT | O_WRONLY | O_APPEND, 0644);
    for (int i = 0; i < 40; i++) {
        sprintf(line[i], "%02d ", i);
        set(&all[i], fd, line[i], 3, 0);
        if (aio_write(&all[i])) SAY("wrong\n");
    }
    set(&sync, fd, NULL, 0, 0);
    CALL(aio_fsync(O_SYNC, &sync));
    CALL(ended(&sync));
    int before = 0;
    for (int i = 0; i < 40; i++) before += aio_error(&all[i]) == 0 && aio_return(&all[i]) == 3;
    SAY("  %d before\n", before);
    close(fd);
    contents("end");
}

static sem_t told;
static _Atomic int last_value, takes_signals;

static void tell(union sigval value) {
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    takes_signals = !sigismember(&blocked, SIGTERM);
    last_value = value.sival_int;
    sem_post(&told);
}

/* Waits until a thread has told. */
static void by_thread(void) {
    sem_wait(&told);
    SAY("  a thread: %d, takes signals: %d\n", last_value, takes_signals);
}

static void signalled(const char *what) {
    sigset_t set;
    siginfo_t info;
    struct timespec time = {10, 0};
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN + 1);
    int signal = sigtimedwait(&set, &info, &time);
    SAY("  %s: signal %d code %s value %d own %d\n", what, signal - SIGRTMIN, info.si_code == SI_ASYNCIO ? "SI_ASYNCIO" : "another",
        info.si_value.sival_int, info.si_pid == getpid() && info.si_uid == getuid());
}

static void notifications(void) {
    struct aiocb b;
    char text[16] = "told";
    int fd = open("told", O_CREAT | O_RDWR, 0644);
    sem_init(&told, 0, 0);
    set(&b, fd, text, 4, 0);
    b.aio_sigevent.sigev_notify = SIGEV_SIGNAL;
    b.aio_sigevent.sigev_signo = SIGRTMIN + 1;
    b.aio_sigevent.sigev_value.sival_int = 17;
    CALL(aio_write(&b));
    signalled("write");
    CALL(aio_error(&b));
    CALL(aio_return(&b));
    b.aio_sigevent.sigev_value.sival_int = 18;
    CALL(aio_fsync(O_DSYNC, &b));
    signalled("fsync");
    CALL(ended(&b));
    b.aio_sigevent.sigev_notify = SIGEV_THREAD;
    b.aio_sigevent.sigev_notify_function = tell;
    b.aio_sigevent.sigev_notify_attributes = NULL;
    b.aio_sigevent.sigev_value.sival_int = 19;
    CALL(aio_read(&b));
    by_thread();
    CALL(aio_error(&b));
    CALL(aio_return(&b));
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, 256 << 10);
    b.aio_sigevent.sigev_notify_attributes = &attributes;
    b.aio_sigevent.sigev_value.sival_int = 20;
    CALL(aio_read(&b));
    by_thread();
    CALL(ended(&b));
    close(fd);
}

static void lists(void) {
    struct aiocb b[4];
    struct aiocb *all[6] = {&b[0], NULL, &b[1], &b[2], &b[3], NULL};
    char text[4][8] = {"aaaa", "bbbb", "", ""};
    int fd = open("list", O_CREAT | O_RDWR, 0644), reads = open("list", O_RDONLY);
    set(&b[0], fd, text[0], 4, 0), b[0].aio_lio_opcode = LIO_WRITE;
    set(&b[1], fd, text[1], 4, 4), b[1].aio_lio_opcode = LIO_WRITE;
    set(&b[2], fd, text[2], 4, 0), b[2].aio_lio_opcode = LIO_NOP;
    set(&b[3], fd, text[3], 8, 0), b[3].aio_lio_opcode = LIO_READ;
    CALL(lio_listio(LIO_WAIT, all, 6, NULL));
    for (int i = 0; i < 4; i++) SAY("  %d: %d %ld\n", i, aio_error(&b[i]), (long)aio_return(&b[i]));
    SAY("  '%.8s'\n", text[3]);
    set(&b[1], reads, text[1], 4, 4), b[1].aio_lio_opcode = LIO_WRITE;
    CALL(lio_listio(LIO_WAIT, all, 6, NULL));
    for (int i = 0; i < 4; i++) SAY("  %d: %d %ld\n", i, aio_error(&b[i]), (long)aio_return(&b[i]));
    b[1].aio_lio_opcode = 77;
    CALL(lio_listio(LIO_WAIT, all, 6, NULL));
    CALL(aio_error(&b[1]));
    b[1].aio_lio_opcode = LIO_READ, b[1].aio_reqprio = 99;
    CALL(lio_listio(LIO_WAIT, all, 6, NULL));
    CALL(aio_error(&b[1]));
    b[1].aio_reqprio = 0;
    CALL(lio_listio(99, all, 6, NULL));
    struct sigevent event;
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGRTMIN + 1;
    event.sigev_value.sival_int = 30;
    CALL(lio_listio(LIO_NOWAIT, all, 6, &event));
    signalled("list");
    for (int i = 0; i < 4; i++) SAY("  %d: %d %ld\n", i, aio_error(&b[i]), (long)aio_return(&b[i]));
    event.sigev_notify = SIGEV_THREAD;
    event.sigev_notify_function = tell;
    event.sigev_value.sival_int = 31;
    /* One of them, and all. */
    b[3].aio_sigevent = event;
    CALL(lio_listio(LIO_NOWAIT, all, 6, &event));
    by_thread();
    by_thread();
    b[3].aio_sigevent.sigev_notify = SIGEV_NONE;
    b[0].aio_lio_opcode = b[1].aio_lio_opcode = b[3].aio_lio_opcode = LIO_NOP;
    event.sigev_value.sival_int = 33;
    CALL(lio_listio(LIO_NOWAIT, all, 6, &event));
    by_thread();
    CALL(lio_listio(LIO_NOWAIT, all, 6, NULL));
    CALL(lio_listio(LIO_WAIT, all, 6, NULL));
    close(fd), close(reads);
}

/* Requests of a file there, of a file elsewhere and of a pipe, in one list. */
static void mixed(void) {
    char path[] = "/tmp/wharf-aio-XXXXXX", text[3][8] = {"here", "there", ""}, byte = 'x';
    int here = open("mixed", O_CREAT | O_RDWR, 0644), there = mkstemp(path), pipes[2];
    unlink(path);
    if (pipe(pipes)) return;
    struct aiocb b[3];
    struct aiocb *all[3] = {&b[0], &b[1], &b[2]};
    const struct aiocb *some[3] = {&b[2], NULL, NULL};
    struct timespec time = {0, 20000000};
    set(&b[0], here, text[0], 4, 0), b[0].aio_lio_opcode = LIO_WRITE;
    set(&b[1], there, text[1], 5, 0), b[1].aio_lio_opcode = LIO_WRITE;
    set(&b[2], pipes[0], text[2], 1, 0), b[2].aio_lio_opcode = LIO_READ;
    CALL(aio_read(&b[2]));
    CALL(aio_suspend(some, 3, &time));
    CALL(lio_listio(LIO_WAIT, all, 2, NULL));
    for (int i = 0; i < 2; i++) SAY("  %d: %d %ld\n", i, aio_error(&b[i]), (long)aio_return(&b[i]));
    some[1] = &b[0];
    CALL(aio_suspend(some, 3, NULL));
    CALL(aio_error(&b[2]));
    CALL(write(pipes[1], &byte, 1));
    CALL(ended(&b[2]));
    struct sigevent event;
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGRTMIN + 1;
    event.sigev_value.sival_int = 40;
    CALL(lio_listio(LIO_NOWAIT, all, 3, &event));
    some[0] = &b[0], some[1] = NULL;
    while (aio_error(&b[0]) == EINPROGRESS) aio_suspend(some, 1, NULL);
    CALL(sigpending(&(sigset_t){0}));
    CALL(aio_error(&b[2]));
    CALL(write(pipes[1], &byte, 1));
    signalled("all");
    for (int i = 0; i < 3; i++) SAY("  %d: %d %ld\n", i, aio_error(&b[i]), (long)aio_return(&b[i]));
    /* Either of two files, again and again. */
    int wrong = 0;
    some[0] = &b[0], some[1] = &b[1], some[2] = NULL;
    for (int i = 0; i < 200; i++) {
        wrong += aio_write(&b[0]) || aio_write(&b[1]);
        do wrong += aio_suspend(some, 3, NULL) != 0;
        while (aio_error(&b[0]) == EINPROGRESS || aio_error(&b[1]) == EINPROGRESS);
        wrong += aio_return(&b[0]) != 4 || aio_return(&b[1]) != 5;
    }
    SAY("  %d wrong\n", wrong);
    close(here), close(there), close(pipes[0]), close(pipes[1]);
}

/* Each request is done or cancelled, and says so. */
static void cancelling(void) {
    struct aiocb all[64];
    static char text[64][1024];
    int fd = open("cancelled", O_CREAT | O_RDWR | O_APPEND, 0644), done = 0, cancelled = 0, other = 0;
    for (int i = 0; i < 64; i++) {
        memset(text[i], 'a' + i % 26, 1024);
        set(&all[i], fd, text[i], 1024, 0);
        aio_write(&all[i]);
    }
    int came = aio_cancel(fd, NULL);
    for (int i = 0; i < 64; i++) {
        const struct aiocb *one[1] = {&all[i]};
        while (aio_error(&all[i]) == EINPROGRESS) aio_suspend(one, 1, NULL);
        int error = aio_error(&all[i]);
        long value = aio_return(&all[i]);
        done += error == 0 && value == 1024;
        cancelled += error == ECANCELED && value == -1;
        other += !(error == 0 && value == 1024) && !(error == ECANCELED && value == -1);
    }
    SAY("  a number there is: %d; all: %d, other: %d, written: %d\n", came == AIO_CANCELED || came == AIO_NOTCANCELED || came == AIO_ALLDONE,
        done + cancelled, other, lseek(fd, 0, SEEK_END) == done * 1024L);
    CALL(aio_cancel(fd, NULL));
    close(fd);
}

static void *work(void *argument) {
    int fd = *(int *)argument;
    long wrong = 0;
    char text[512], back[512];
    struct aiocb b[2];
    static _Atomic int count;
    int me = count++;
    memset(text, 'A' + me, sizeof text);
    for (int i = 0; i < 50; i++) {
        set(&b[0], fd, text, 512, me * 512);
        set(&b[1], fd, back, 512, me * 512);
        wrong += aio_write(&b[0]) || aio_read(&b[1]);
        const struct aiocb *list[2] = {&b[1], NULL};
        while (aio_error(&b[1]) == EINPROGRESS) wrong += aio_suspend(list, 2, NULL) != 0;
        wrong += aio_return(&b[0]) != 512 || aio_return(&b[1]) != 512 || memcmp(text, back, 512);
    }
    return (void *)wrong;
}

static long working(int fd, pthread_t threads[4]) {
    long wrong = 0;
    for (int i = 0; i < 4; i++) {
        void *one;
        pthread_join(threads[i], &one);
        wrong += (long)one;
    }
    return wrong;
}

static void threads(void) {
    pthread_t threads[4];
    int fd = open("threads", O_CREAT | O_RDWR, 0644);
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, work, &fd);
    SAY("  %ld wrong\n", working(fd, threads));
    close(fd);
}

/* A child has none of its parent's requests, and makes its own (those of the C library hang). */
static void children(void) {
    pthread_t threads[4];
    int fd = open("parent", O_CREAT | O_RDWR, 0644), failed = 0;
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, work, &fd);
    for (int i = 0; i < 6; i++) {
        pid_t child = fork();
        if (child == 0) {
            struct aiocb b;
            char byte[4] = "abc";
            int own = open("child", O_CREAT | O_RDWR, 0644);
            set(&b, own, byte, 3, i * 3);
            alarm(60);
            if (aio_write(&b)) _exit(1);
            const struct aiocb *one[1] = {&b};
            while (aio_error(&b) == EINPROGRESS) aio_suspend(one, 1, NULL);
            _exit(aio_return(&b) != 3);
        }
        int status;
        waitpid(child, &status, 0);
        failed += status != 0;
    }
    long wrong = working(fd, threads);
    SAY("%ld wrong, %d failed, %ld bytes\n", wrong, failed, (long)lseek(open("child", O_RDONLY), 0, SEEK_END));
}

/* What was asked for before a descriptor is closed is done to the file that it was of (the C library may do it to another). */
static void closed(void) {
    struct aiocb all[8];
    static char text[8][4096];
    int fd = open("closed", O_CREAT | O_RDWR | O_APPEND, 0644);
    for (int i = 0; i < 8; i++) {
        memset(text[i], 'a' + i, 4096);
        set(&all[i], fd, text[i], 4096, 0);
        if (aio_write(&all[i])) SAY("wrong\n");
    }
    close(fd);
    int other = open("other", O_CREAT | O_RDWR, 0644);
    for (int i = 0; i < 8; i++) SAY("%ld ", ended(&all[i]));
    SAY("%d %ld\n", other == fd, (long)lseek(other, 0, SEEK_END));
    int again = open("closed", O_RDONLY), wrong = 0;
    for (int i = 0; i < 8; i++) {
        char byte = 0;
        wrong += pread(again, &byte, 1, i * 4096) != 1 || byte != 'a' + i;
    }
    SAY("%d wrong\n", wrong);
}

int main(int count, char **arguments) {
    if (count < 2 || chdir(arguments[1])) return 1;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN + 1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    if (count > 2) {
        closed();
        children();
        return 0;
    }
    one_by_one();
    errors();
    at_the_end();
    notifications();
    lists();
    mixed();
    cancelling();
    threads();
    return 0;
}
