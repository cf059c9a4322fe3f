/* Processes of several threads at the same files. Each change has a number: who begins to read behind its end must not find an older one, and
   nobody finds one that has not begun. A thread forks children meanwhile; processes may be killed; each thread ends and another goes on. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#define THREADS_MAX 64
#define SLOT 64
#define BIG (200 << 10)
static struct shared {
    _Atomic long began[THREADS_MAX], ended[THREADS_MAX];
    _Atomic long name_began[THREADS_MAX], name_ended[THREADS_MAX];
    _Atomic long append_began, append_ended;
    _Atomic int wrong, failed;
} *all;
static int threads, rounds, total, seed, slots, grown, process;
struct worker { pthread_t thread; int number; unsigned random; };

static unsigned draw(struct worker *me, unsigned below) {
    me->random = me->random * 1103515245 + 12345;
    return (me->random >> 8) % below;
}
static void expect(int holds, const char *what, long found) {
    if (holds) return;
    if (all->wrong++ < 10) fprintf(stderr, "wrong: %s, %ld, errno %d\n", what, found, errno);
}
static void check_slot(const long *slot, long low, long high) {
    for (int i = 1; i < SLOT / 8; i++) expect(slot[i] == slot[0], "a slot of two writes", slot[i]);
    expect(slot[0] >= low, "a slot from before", slot[0] - low);
    expect(slot[0] <= high, "a slot of the future", slot[0] - high);
}
static void write_slot(struct worker *me) {
    long slot[SLOT / 8], value = ++all->began[me->number];
    for (int i = 0; i < SLOT / 8; i++) slot[i] = value;
    expect(pwrite(slots, slot, SLOT, me->number * SLOT) == SLOT, "write", value);
    all->ended[me->number] = value;
}
static void read_slot(struct worker *me) {
    long slot[SLOT / 8];
    int of = draw(me, total);
    long low = all->ended[of];
    expect(pread(slots, slot, SLOT, of * SLOT) == SLOT, "read", of);
    check_slot(slot, low, all->began[of]);
}
static void read_page(void) {
    long page[THREADS_MAX][SLOT / 8], low[THREADS_MAX];
    for (int i = 0; i < total; i++) low[i] = all->ended[i];
    expect(pread(slots, page, sizeof page, 0) == sizeof page, "read of a page", 0);
    for (int i = 0; i < total; i++) check_slot(page[i], low[i], all->began[i]);
}
static void append(void) {
    all->append_began++;
    expect(write(grown, "sixteen bytes...", 16) == 16, "append", 0);
    all->append_ended++;
}
static void look_at_size(void) {
    struct stat found;
    long low = all->append_ended;
    expect(fstat(grown, &found) == 0, "fstat", 0);
    expect(found.st_size >= 16 * low, "a size from before", found.st_size - 16 * low);
    expect(found.st_size <= 16 * all->append_began, "a size of the future", found.st_size);
}
static void change_name(struct worker *me) {
    char name[32];
    sprintf(name, "name%d", me->number);
    long value = ++all->name_began[me->number];
    if (value % 2) {
        int made = open(name, O_CREAT | O_EXCL | O_WRONLY, 0644);
        expect(made >= 0, "make", value);
        close(made);
    } else expect(unlink(name) == 0, "unlink", value);
    all->name_ended[me->number] = value;
}
static void look_for_name(struct worker *me) {
    char name[32];
    struct stat found;
    int of = draw(me, total), how = draw(me, 3), opened = -1;
    sprintf(name, "name%d", of);
    long low = all->name_ended[of];
    int is_there = how == 0 ? stat(name, &found) == 0
        : how == 1 ? access(name, F_OK) == 0 : (opened = open(name, O_RDONLY)) >= 0;
    if (opened >= 0) close(opened);
    else if (!is_there) expect(errno == ENOENT, "a name", errno);
    if (all->name_began[of] == low) expect(is_there == low % 2, "a name from before", low);
}
static void use_own_file(struct worker *me) {
    char name[32], *bytes = malloc(BIG), *found = malloc(BIG);
    sprintf(name, "own%d", me->number);
    int own = open(name, O_CREAT | O_RDWR | O_TRUNC, 0644);
    memset(bytes, me->number + draw(me, 99), BIG);
    expect(write(own, bytes, BIG) == BIG, "a big write", me->number);
    expect(pread(own, found, BIG, 0) == BIG && !memcmp(bytes, found, BIG), "a big read", me->number);
    expect(ftruncate(own, 5000) == 0 && lseek(own, 0, SEEK_END) == 5000, "a cut", me->number);
    expect(pread(own, found, BIG, 100) == 4900 && !memcmp(bytes, found, 4900), "the rest", me->number);
    if (draw(me, 4) == 0) expect(fsync(own) == 0, "sync", me->number);
    expect(close(own) == 0, "close", me->number);
    free(bytes);
    free(found);
}
/* The child finds what its parent's threads have open, and opens more. */
static void fork_child(struct worker *me) {
    pid_t child = fork();
    if (child == 0) {
        char name[32], line[8] = "child\n";
        read_page();
        sprintf(name, "child%d", me->number);
        int own = open(name, O_CREAT | O_RDWR | O_APPEND, 0644);
        _exit(own < 0 || write(own, line, 6) != 6 || close(own) < 0);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) < 0 || status) all->failed++;
}
static void *work(void *argument) {
    struct worker *me = argument;
    for (int i = 0; i < rounds; i++) {
        unsigned what = draw(me, 64);
        if (what < 18) write_slot(me);
        else if (what < 34) read_slot(me);
        else if (what < 40) read_page();
        else if (what < 44) append();
        else if (what < 49) look_at_size();
        else if (what < 54) change_name(me);
        else if (what < 62) look_for_name(me);
        else if (what < 63) use_own_file(me);
        else if (me->number % threads == 0) fork_child(me);
    }
    return NULL;
}
static void run_process(void) {
    struct worker workers[THREADS_MAX] = {0};
    for (int generation = 0; generation < 3; generation++) {
        for (int i = 0; i < threads; i++) {
            struct worker *one = &workers[i];
            one->number = process * threads + i;
            one->random = seed * 7919 + one->number * 31 + generation;
            if (pthread_create(&one->thread, NULL, work, one)) _exit(9);
        }
        for (int i = 0; i < threads; i++) pthread_join(workers[i].thread, NULL);
    }
    _exit(0);
}
/* DIRECTORY PROCESSES THREADS ROUNDS SEED KILLED */
int main(int count, char **arguments) {
    if (count < 7 || chdir(arguments[1]) < 0) return 1;
    int processes = atoi(arguments[2]), killed = atoi(arguments[6]), status, ended_ill = 0;
    threads = atoi(arguments[3]), rounds = atoi(arguments[4]), seed = atoi(arguments[5]);
    total = processes * threads;
    all = mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    slots = open("slots", O_CREAT | O_RDWR | O_TRUNC, 0644);
    grown = open("grown", O_CREAT | O_RDWR | O_APPEND | O_TRUNC, 0644);
    char zeros[THREADS_MAX * SLOT] = {0};
    for (int i = 0; i < total; i++) {
        char name[32];
        sprintf(name, "name%d", i);
        unlink(name);
    }
    if (total > THREADS_MAX || write(slots, zeros, sizeof zeros) != sizeof zeros) return 1;
    pid_t pids[THREADS_MAX];
    for (process = 0; process < processes; process++)
        if ((pids[process] = fork()) == 0) run_process();
    for (int i = 0; i < killed; i++) {
        /* When it has done some of its work. */
        while (all->ended[i * threads] < 3) usleep(1000);
        kill(pids[i], SIGKILL);
    }
    for (int i = 0; i < processes; i++) {
        waitpid(pids[i], &status, 0);
        ended_ill += i >= killed && status != 0;
    }
    read_page();
    look_at_size();
    long writes = 0;
    for (int i = 0; i < total; i++) writes += all->ended[i];
    printf("%d wrong, %d failed, %d ill; enough: %d\n", all->wrong, all->failed, ended_ill,
        writes > rounds * (total - killed * threads) / 4 && all->append_ended > total / 8);
    return 0;
}
