// Requests by libaio, of a file of the place that is named and of one of the machine's own, in one context. It is built without the
// library: the same calls by their numbers, or by the library's functions if it is loaded.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int (*p_setup)(int, aio_context_t *), (*p_destroy)(aio_context_t), (*p_submit)(aio_context_t, long, struct iocb **);
static int (*p_events)(aio_context_t, long, long, struct io_event *, struct timespec *);

static int by_number(long came) { return came < 0 ? -errno : came; }
static int setup(int most, aio_context_t *to) { return p_setup ? p_setup(most, to) : by_number(syscall(SYS_io_setup, most, to)); }
static int destroy(aio_context_t of) { return p_destroy ? p_destroy(of) : by_number(syscall(SYS_io_destroy, of)); }
static int submit(aio_context_t to, long count, struct iocb **all) {
    return p_submit ? p_submit(to, count, all) : by_number(syscall(SYS_io_submit, to, count, all));
}
static int events(aio_context_t of, long least, long most, struct io_event *room, struct timespec *time) {
    return p_events ? p_events(of, least, most, room, time) : by_number(syscall(SYS_io_getevents, of, least, most, room, time));
}

static struct iocb request(int file, int what, void *buffer, size_t bytes, long long at, int number) {
    struct iocb made = {.aio_fildes = file, .aio_lio_opcode = what, .aio_buf = (uintptr_t)buffer, .aio_nbytes = bytes, .aio_offset = at, .aio_data = number};
    return made;
}

static aio_context_t context;

static int by_number_of(const void *a, const void *b) {
    return (int)((const struct io_event *)a)->data - (int)((const struct io_event *)b)->data;
}

// Takes so many events, and shows them by the numbers of their requests.
static void show(const char *what, int count) {
    struct io_event room[32];
    struct timespec time = {5, 0};
    int found = events(context, count, 32, room, &time);
    qsort(room, found > 0 ? found : 0, sizeof *room, by_number_of);
    printf("%s: %d", what, found);
    for (int at = 0; at < found; at++) {
        struct iocb *of = (struct iocb *)(uintptr_t)room[at].obj;
        printf(" %d=%lld%s", (int)room[at].data, (long long)room[at].res, of->aio_data == room[at].data ? "" : " of another");
    }
    puts("");
}

static int one(struct iocb made) {
    static struct iocb kept[64];
    static int next;
    struct iocb *at = &kept[next++ % 64];
    *at = made;
    return submit(context, 1, &at);
}

static void *later(void *given) {
    usleep(30000);
    one(*(struct iocb *)given);
    return 0;
}

int main(int count, char **arguments) {
    const char *own = arguments[2];
    if (count > 3) {
        void *library = dlopen(arguments[3], RTLD_NOW | RTLD_GLOBAL);
        // By the order of symbols, as a program finds them that is linked with it.
        p_setup = dlsym(RTLD_DEFAULT, "io_setup"), p_destroy = dlsym(RTLD_DEFAULT, "io_destroy");
        p_submit = dlsym(RTLD_DEFAULT, "io_submit"), p_events = dlsym(RTLD_DEFAULT, "io_getevents");
        if (!library || !p_setup || !p_destroy || !p_submit || !p_events) return puts("no library"), 1;
    }
    chdir(arguments[1]);
    int here = open("file", O_CREAT | O_TRUNC | O_RDWR, 0600), there = open(own, O_CREAT | O_TRUNC | O_RDWR, 0600);
    int reads = open("file", O_RDONLY), directory = open(".", O_RDONLY | O_DIRECTORY), writes = open("file", O_WRONLY);
    static char room[8][4096], back[8][4096];
    for (int at = 0; at < 8; at++) memset(room[at], 'a' + at, 4096);
    printf("setup: %d\n", setup(16, &context));
    printf("setup twice: %d\n", setup(16, &context));

    // Of both files at once.
    struct iocb all[8], *list[8];
    for (int at = 0; at < 8; at++) {
        all[at] = request(at % 2 ? there : here, IOCB_CMD_PWRITE, room[at], 4096, at / 2 * 4096, at);
        list[at] = &all[at];
    }
    printf("submit: %d\n", submit(context, 8, list));
    show("written", 8);
    for (int at = 0; at < 8; at++) all[at] = request(at % 2 ? there : here, IOCB_CMD_PREAD, back[at], 4096, at / 2 * 4096, at);
    printf("submit: %d\n", submit(context, 8, list));
    show("read", 8);
    printf("the same: %d\n", memcmp(room, back, sizeof room) == 0);

    // Vectors, beyond the end, making durable.
    struct iovec parts[2] = {{room[7], 100}, {room[6], 200}}, into[2] = {{back[0], 250}, {back[1], 250}};
    int made = one(request(here, IOCB_CMD_PWRITEV, parts, 2, 50000, 1));
    made += one(request(here, IOCB_CMD_PREADV, into, 2, 50000, 2));
    made += one(request(here, IOCB_CMD_PREAD, back[2], 4096, 1 << 20, 3));
    made += one(request(here, IOCB_CMD_FSYNC, 0, 0, 0, 4));
    made += one(request(here, IOCB_CMD_FDSYNC, 0, 0, 0, 5));
    printf("made: %d\n", made);
    show("others", 5);
    printf("vectors: %c %c %c\n", back[0][99], back[0][100], back[1][49]);

    // What is refused before it begins, with how many before it.
    printf("nothing: %d\n", submit(context, 0, list));
    printf("no context: %d\n", submit(12345, 1, list));
    printf("write to what is read: %d\n", one(request(reads, IOCB_CMD_PWRITE, room[0], 10, 0, 0)));
    printf("read from what is written: %d\n", one(request(writes, IOCB_CMD_PREAD, room[0], 10, 0, 0)));
    printf("directory: %d\n", one(request(directory, IOCB_CMD_PREAD, room[0], 10, 0, 0)));
    printf("before the beginning: %d\n", one(request(here, IOCB_CMD_PREAD, room[0], 10, -1, 0)));
    printf("unknown: %d\n", one(request(here, 99, room[0], 10, 0, 0)));
    struct iocb odd = request(here, IOCB_CMD_PREAD, room[0], 10, 0, 0);
    odd.aio_rw_flags = 1 << 30;
    printf("unknown flags: %d\n", one(odd));
    all[1].aio_fildes = 999;
    printf("the second is none: %d\n", submit(context, 3, list));
    show("the first", 1);
    all[1].aio_fildes = there, all[2].aio_lio_opcode = 99;
    printf("the third is none: %d\n", submit(context, 4, list));
    show("two", 2);
    struct io_event none;
    struct timespec soon = {0, 20000000}, now = {0, 0};
    printf("no events: %d %d %d\n", events(context, 1, 1, &none, &soon), events(context, 0, 1, &none, 0), events(context, 1, 1, &none, &now));
    printf("more than there is room for: %d\n", events(context, 2, 1, &none, &soon));

    // Flags: at the end, durable.
    struct iocb end = request(here, IOCB_CMD_PWRITE, room[3], 10, 0, 1);
    end.aio_rw_flags = RWF_APPEND | RWF_DSYNC;
    printf("append: %d\n", one(end));
    show("appended", 1);
    printf("bytes: %d\n", (int)lseek(here, 0, SEEK_END));

    // Told by an eventfd.
    int event = eventfd(0, EFD_NONBLOCK);
    for (int at = 0; at < 2; at++) {
        struct iocb told = request(at ? there : here, IOCB_CMD_PREAD, back[0], 10, 0, at);
        told.aio_flags = IOCB_FLAG_RESFD, told.aio_resfd = event;
        printf("told: %d\n", one(told));
    }
    struct pollfd watched = {event, POLLIN};
    printf("poll: %d\n", poll(&watched, 1, 5000));
    show("both", 2);
    uint64_t times = 0;
    read(event, &times, sizeof times);
    printf("times: %d\n", (int)times);
    struct iocb told = request(here, IOCB_CMD_PREAD, back[0], 10, 0, 0);
    told.aio_flags = IOCB_FLAG_RESFD, told.aio_resfd = here;
    printf("no eventfd: %d\n", one(told));

    // A thread waits, and another makes a request.
    for (int at = 0; at < 2; at++) {
        struct iocb given = request(at ? there : here, IOCB_CMD_PREAD, back[0], 10, 0, at);
        pthread_t thread;
        pthread_create(&thread, 0, later, &given);
        show("from another thread", 1);
        pthread_join(thread, 0);
    }
    // A child has none of it.
    one(request(here, IOCB_CMD_PREAD, back[0], 10, 0, 9));
    fflush(stdout);
    int child = fork(), how = 0;
    if (child == 0) {
        int of = events(context, 0, 1, &none, &now);
        aio_context_t new = 0;
        int works = setup(4, &new) == 0;
        context = new;
        works += one(request(here, IOCB_CMD_PREAD, back[0], 10, 0, 7)) == 1;
        printf("child: %d %d\n", of, works);
        show("the child's", 1);
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, &how, 0);
    show("the parent's", 1);
    one(request(here, IOCB_CMD_PREAD, back[0], 10, 0, 9));
    printf("destroy: %d\n", destroy(context));
    printf("destroy twice: %d\n", destroy(context));
    // The library looks into the memory of a context, which is none any more.
    if (!p_events) printf("events of none: %d\n", events(context, 0, 1, &none, &now));
    return 0;
}
