/* Processes that write and read one file: a read that begins after a write has ended has what was written. Who knows that a write has
   ended, knows it by a word of shared memory. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define WRITERS 2
#define READERS 3
#define PAGES 6
#define ROUNDS 400

/* What a writer has written last to each of its pages, from before it began to write and after it ended. */
struct shared {
    _Atomic unsigned begun[WRITERS][PAGES];
    _Atomic unsigned ended[WRITERS][PAGES];
    _Atomic unsigned long size_ended;
    _Atomic int done;
    _Atomic int kept_reading;
};

static struct shared *shared;
static char path[4096];

static void fail(const char *what, long a, long b, long c) {
    printf("wrong: %s %ld %ld %ld errno %d\n", what, a, b, c, errno);
    fflush(stdout);
    _exit(1);
}

static unsigned next(unsigned *state) {
    return *state = *state * 1664525 + 1013904223;
}

static void writer(int me) {
    int file = open(path, O_RDWR);
    unsigned state = me + 1, page[1024];
    for (unsigned round = 1; round <= ROUNDS; round++) {
        int which = next(&state) >> 16;
        which %= PAGES;
        unsigned value = atomic_load(&shared->ended[me][which]) + 1;
        for (int i = 0; i < 1024; i++) page[i] = value;
        atomic_store(&shared->begun[me][which], value);
        if (pwrite(file, page, 4096, (me * PAGES + which) * 4096L) != 4096) fail("write", me, which, 0);
        atomic_store(&shared->ended[me][which], value);
        /* Its own writes it sees at once. */
        unsigned back = 0;
        if (pread(file, &back, 4, (me * PAGES + which) * 4096L + 400) != 4 || back != value) fail("own", me, back, value);
        if (round % 64 == 0) usleep(300);
    }
    close(file);
    _exit(0);
}

/* Makes the file longer, and shorter never. */
static void grower(void) {
    int file = open(path, O_WRONLY | O_APPEND);
    for (int i = 0; i < 100; i++) {
        if (write(file, "0123456789", 10) != 10) fail("append", i, 0, 0);
        struct stat found;
        if (fstat(file, &found)) fail("fstat", i, 0, 0);
        atomic_store(&shared->size_ended, found.st_size);
        usleep(200);
    }
    _exit(0);
}

static void reader(int me) {
    int file = open(path, O_RDONLY);
    unsigned state = me + 77, page[1024];
    unsigned long reads = 0;
    do {
        int of = (next(&state) >> 16) % WRITERS, which = (next(&state) >> 16) % PAGES;
        unsigned least = atomic_load(&shared->ended[of][which]);
        if (pread(file, page, 4096, (of * PAGES + which) * 4096L) != 4096) fail("read", of, which, 0);
        unsigned most = atomic_load(&shared->begun[of][which]);
        for (int i = 1; i < 1024; i++) if (page[i] != page[0]) fail("mixed", page[0], page[i], i);
        if (page[0] < least || page[0] > most) fail("old", least, page[0], most);
        unsigned long size = atomic_load(&shared->size_ended);
        struct stat found;
        if (fstat(file, &found) || (unsigned long)found.st_size < size) fail("size", found.st_size, size, 0);
        if ((unsigned long)lseek(file, 0, SEEK_END) < size) fail("seek", size, 0, 0);
        char tail[10];
        if (size > WRITERS * PAGES * 4096 && (pread(file, tail, 10, size - 10) != 10 || memcmp(tail, "0123456789", 10))) fail("tail", size, 0, 0);
        reads++;
    } while (!atomic_load(&shared->done));
    if (reads < 10) fail("few reads", reads, 0, 0);
    _exit(0);
}

/* Reads for ever, and is killed. */
static void victim(void) {
    int file = open(path, O_RDWR);
    char page[4096];
    for (;;) for (int i = 0; i < WRITERS * PAGES; i++) if (pread(file, page, 4096, i * 4096L) != 4096) fail("victim", i, 0, 0);
}

static pid_t start(void (*f)(int), int me) {
    pid_t child = fork();
    if (child == 0) f(me);
    return child;
}

static void grows(int me) { (void)me; grower(); }
static void dies(int me) { (void)me; victim(); }

int main(int count, char **words) {
    snprintf(path, sizeof path, "%s/shared", words[1]);
    shared = mmap(0, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    char zeros[4096] = {0};
    for (int i = 0; i < WRITERS * PAGES; i++) if (pwrite(file, zeros, 4096, i * 4096L) != 4096) fail("begin", i, 0, 0);
    pid_t readers[READERS], writers[WRITERS + 1], victims[4];
    for (int i = 0; i < READERS; i++) readers[i] = start(reader, i);
    for (int i = 0; i < WRITERS; i++) writers[i] = start(writer, i);
    writers[WRITERS] = start(grows, 0);
    for (int i = 0; i < 4; i++) victims[i] = start(dies, i);
    usleep(30000);
    for (int i = 0; i < 4; i++) {
        kill(victims[i], i % 2 ? SIGKILL : SIGSTOP);
        usleep(10000);
    }
    int wrong = 0, status;
    for (int i = 0; i <= WRITERS; i++) { waitpid(writers[i], &status, 0); wrong += status != 0; }
    atomic_store(&shared->done, 1);
    for (int i = 0; i < READERS; i++) { waitpid(readers[i], &status, 0); wrong += status != 0; }
    for (int i = 0; i < 4; i++) { kill(victims[i], SIGKILL); waitpid(victims[i], &status, 0); }
    /* All that was written is there, for whoever comes new. */
    for (int of = 0; of < WRITERS; of++) for (int which = 0; which < PAGES; which++) {
        unsigned value = 0;
        if (pread(file, &value, 4, (of * PAGES + which) * 4096L) != 4 || value != atomic_load(&shared->ended[of][which])) wrong++;
    }
    printf("%d wrong\n", wrong);
    return wrong != 0;
}
