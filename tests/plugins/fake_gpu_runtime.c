/* Not a plugin: HIP's and CUDA's functions for memory and streams, loaded under the name of either
 * library, for a GPU that is not there. Its memory is host memory which no access is allowed to but
 * by what is queued on a stream: whoever touches it on the host is killed by SIGSEGV, as is who
 * writes past its end. Work is done as late as the real ones allow: when its stream is waited for,
 * and copies to the device arrive in the order of the default stream.
 *
 *     FAKE_GPU_NONE        there is no device
 *     FAKE_GPU_FAILS       a function, as "hipMalloc", that reports failure
 *     FAKE_GPU_FAULT_FILE  while this file exists, the next work on a stream deletes it and loses
 *                          the device: every later call of the process fails
 *
 * fake_gpu_enqueue, which the real ones lack, queues work; the emulated engines call it. */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define PAGE 4096
#define ALIGNMENT 256 /* bytes, of all device memory */
#define MOST_BLOCKS 8192
#define POISON 0xa5
enum { SUCCESS = 0, INVALID = 1, NO_MEMORY = 2, FAILS = 3, LOST = 700 };

typedef struct {
    char* pages; /* NULL: free */
    size_t page_bytes;
    char* begin;
    size_t bytes;
} Block;

typedef struct Task {
    void (*run)(void*);
    void* argument;
    struct Task* next;
} Task;

typedef struct Stream {
    Task *first, *last;
    struct Stream* next; /* of all that exist */
} Stream;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static Block blocks[MOST_BLOCKS];
static Stream default_stream, thread_stream;
static Stream orphans; /* work of streams that are destroyed, for which nobody waits any more */
static Stream* streams;
static int is_lost;

static int fails(const char* name) {
    const char* failing = getenv("FAKE_GPU_FAILS");
    if (failing && strncmp(failing, "hip", 3) == 0) failing += 3;
    if (failing && strncmp(failing, "cuda", 4) == 0) failing += 4;
    return failing && strcmp(failing, name) == 0;
}

static void set_access(int access) {
    for (int i = 0; i < MOST_BLOCKS; ++i) {
        if (blocks[i].pages) mprotect(blocks[i].pages, blocks[i].page_bytes, access);
    }
}

static Block* block_of(const void* memory, size_t bytes) {
    const char* at = (const char*)memory;
    for (int i = 0; i < MOST_BLOCKS; ++i) {
        Block* b = &blocks[i];
        if (b->pages && at >= b->begin && at + bytes <= b->begin + b->bytes) return b;
    }
    return NULL;
}

static Stream* stream_of(void* handle) {
    if (handle == NULL || handle == (void*)1) return &default_stream;
    if (handle == (void*)2) return &thread_stream;
    for (Stream* s = streams; s; s = s->next) {
        if (s == handle) return s;
    }
    return NULL;
}

static int add_task(Stream* stream, void (*run)(void*), void* argument) {
    Task* task = stream ? (Task*)malloc(sizeof(*task)) : NULL;
    if (!task) return INVALID;
    *task = (Task){run, argument, NULL};
    if (stream->last) {
        stream->last->next = task;
    } else {
        stream->first = task;
    }
    stream->last = task;
    return SUCCESS;
}

static void finish(Stream* stream) {
    while (stream->first) {
        Task* task = stream->first;
        const char* fault = getenv("FAKE_GPU_FAULT_FILE");
        if (fault && unlink(fault) == 0) is_lost = 1;
        if (!is_lost) {
            set_access(PROT_READ | PROT_WRITE);
            task->run(task->argument);
            set_access(PROT_NONE);
        }
        stream->first = task->next;
        if (!stream->first) stream->last = NULL;
        free(task);
    }
}

static void finish_all(void) {
    finish(&default_stream);
    finish(&thread_stream);
    for (Stream* s = streams; s; s = s->next) finish(s);
    finish(&orphans);
}

static int locked_status(void) { return is_lost ? LOST : SUCCESS; }

/* ---- work ---- */

typedef struct {
    void* to;
    size_t bytes;
    unsigned char value; /* for all of them, or */
    unsigned char* from; /* bytes to copy, freed then */
} Write;

static void do_write(void* argument) {
    Write* write = (Write*)argument;
    if (write->from) {
        memcpy(write->to, write->from, write->bytes);
    } else {
        memset(write->to, write->value, write->bytes);
    }
    free(write->from);
    free(write);
}

static int add_write(Stream* stream, Write value) {
    Write* write = (Write*)malloc(sizeof(*write));
    *write = value;
    return add_task(stream, do_write, write);
}

/* ---- the functions, without the names' beginning ---- */

static int device_count(int* count) {
    *count = getenv("FAKE_GPU_NONE") ? 0 : 1;
    return fails("GetDeviceCount") ? FAILS : SUCCESS;
}

static int get_device(int* index) {
    *index = 0;
    return locked_status();
}

static int device_malloc(void** memory, size_t bytes) {
    if (fails("Malloc") || is_lost) return is_lost ? LOST : NO_MEMORY;
    pthread_mutex_lock(&mutex);
    Block* free_block = blocks;
    while (free_block < blocks + MOST_BLOCKS && free_block->pages) ++free_block;
    int status = NO_MEMORY;
    const size_t used = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    const size_t page_bytes = (used + PAGE - 1) / PAGE * PAGE;
    /* One page more, that nobody ever may touch. */
    char* pages =
        (char*)mmap(NULL, page_bytes + PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (free_block < blocks + MOST_BLOCKS && pages != (char*)MAP_FAILED) {
        mprotect(pages, page_bytes, PROT_READ | PROT_WRITE);
        memset(pages, POISON, page_bytes);
        mprotect(pages, page_bytes, PROT_NONE);
        *free_block = (Block){pages, page_bytes, pages + page_bytes - used, bytes};
        *memory = free_block->begin;
        status = SUCCESS;
    }
    pthread_mutex_unlock(&mutex);
    return status;
}

/* The real ones wait for all work, but do not promise to. */
static int device_free(void* memory) {
    pthread_mutex_lock(&mutex);
    finish(&default_stream);
    finish(&thread_stream);
    int is_in_use = orphans.first != NULL;
    for (Stream* s = streams; s; s = s->next) is_in_use |= s->first != NULL;
    if (is_in_use) abort();
    Block* block = block_of(memory, 0);
    if (!block || block->begin != memory) abort(); /* freed twice, or never allocated */
    munmap(block->pages, block->page_bytes + PAGE);
    block->pages = NULL;
    pthread_mutex_unlock(&mutex);
    return locked_status();
}

static int host_malloc(void** memory, size_t bytes, unsigned flags, const char* name) {
    (void)flags;
    *memory = fails(name) ? NULL : malloc(bytes);
    return *memory ? SUCCESS : NO_MEMORY;
}

static int host_free(void* memory) {
    free(memory);
    return SUCCESS;
}

static int copy(void* to, const void* from, size_t bytes, int kind) {
    if (fails("Memcpy")) return FAILS;
    pthread_mutex_lock(&mutex);
    finish(&default_stream);
    finish(&thread_stream); /* waits for the default stream, and is waited for */
    const int is_to = block_of(to, bytes) != NULL;
    const int is_from = block_of(from, bytes) != NULL;
    int status = INVALID;
    if (kind == 1 && is_to && !is_from) {
        Write write = {to, bytes, 0, (unsigned char*)malloc(bytes)};
        memcpy(write.from, from, bytes);
        status = add_write(&default_stream, write);
    } else if (kind == 2 && is_from && !is_to) {
        set_access(PROT_READ | PROT_WRITE);
        memcpy(to, from, bytes);
        set_access(PROT_NONE);
        status = SUCCESS;
    }
    pthread_mutex_unlock(&mutex);
    return is_lost ? LOST : status;
}

static int fill(void* memory, int value, size_t bytes, void* stream) {
    pthread_mutex_lock(&mutex);
    Write write = {memory, bytes, (unsigned char)value, NULL};
    const int status = block_of(memory, bytes) ? add_write(stream_of(stream), write) : INVALID;
    pthread_mutex_unlock(&mutex);
    return is_lost ? LOST : status;
}

static int stream_create(void** stream, unsigned flags) {
    if (flags != 1) return INVALID; /* all that exist here do not wait for the default stream */
    pthread_mutex_lock(&mutex);
    Stream* made = (Stream*)calloc(1, sizeof(*made));
    made->next = streams;
    streams = made;
    *stream = made;
    pthread_mutex_unlock(&mutex);
    return locked_status();
}

static int stream_destroy(void* stream) {
    pthread_mutex_lock(&mutex);
    Stream** at = &streams;
    while (*at && *at != stream) at = &(*at)->next;
    if (!*at) abort();
    while ((*at)->first) {
        Task* task = (*at)->first;
        (*at)->first = task->next;
        add_task(&orphans, task->run, task->argument);
        free(task);
    }
    *at = (*at)->next;
    free(stream);
    pthread_mutex_unlock(&mutex);
    return locked_status();
}

static int stream_synchronize(void* handle) {
    if (fails("StreamSynchronize")) return FAILS;
    pthread_mutex_lock(&mutex);
    Stream* stream = stream_of(handle);
    if (stream) finish(stream);
    pthread_mutex_unlock(&mutex);
    return is_lost ? LOST : stream ? SUCCESS : INVALID;
}

static int device_synchronize(void) {
    pthread_mutex_lock(&mutex);
    finish_all();
    pthread_mutex_unlock(&mutex);
    return locked_status();
}

static const char* error_string(int status) {
    return status == LOST ? "fake illegal access" : status ? "fake failure" : "success";
}

/* ---- and with both beginnings ---- */

#define RUNTIME(prefix, host_alloc, host_release)                                             \
    EXPORT int prefix##GetDeviceCount(int* count) { return device_count(count); }             \
    EXPORT int prefix##GetDevice(int* index) { return get_device(index); }                    \
    EXPORT int prefix##Malloc(void** memory, size_t bytes) {                                  \
        return device_malloc(memory, bytes);                                                  \
    }                                                                                         \
    EXPORT int prefix##Free(void* memory) { return device_free(memory); }                     \
    EXPORT int prefix##host_alloc(void** memory, size_t bytes, unsigned flags) {              \
        return host_malloc(memory, bytes, flags, #host_alloc);                                \
    }                                                                                         \
    EXPORT int prefix##host_release(void* memory) { return host_free(memory); }               \
    EXPORT int prefix##Memcpy(void* to, const void* from, size_t bytes, int kind) {           \
        return copy(to, from, bytes, kind);                                                   \
    }                                                                                         \
    EXPORT int prefix##MemsetAsync(void* memory, int value, size_t bytes, void* stream) {     \
        return fill(memory, value, bytes, stream);                                            \
    }                                                                                         \
    EXPORT int prefix##StreamCreateWithFlags(void** stream, unsigned flags) {                 \
        return stream_create(stream, flags);                                                  \
    }                                                                                         \
    EXPORT int prefix##StreamDestroy(void* stream) { return stream_destroy(stream); }         \
    EXPORT int prefix##StreamSynchronize(void* stream) { return stream_synchronize(stream); } \
    EXPORT int prefix##DeviceSynchronize(void) { return device_synchronize(); }               \
    EXPORT const char* prefix##GetErrorString(int status) { return error_string(status); }

RUNTIME(hip, HostMalloc, HostFree)
RUNTIME(cuda, HostAlloc, FreeHost)

EXPORT int fake_gpu_enqueue(void* stream, void (*run)(void*), void* argument) {
    pthread_mutex_lock(&mutex);
    const int status = add_task(stream_of(stream), run, argument);
    pthread_mutex_unlock(&mutex);
    return is_lost ? LOST : status;
}
