// Runs CUDA C on the CPU, one thread after another, and reports what a GPU passes over in silence:
// indices outside of arrays; two threads that touch one cell of global or shared memory, one of them
// storing, with no barrier between; barriers and shuffles to which not all threads come, all by the
// same calls; memory that is read before anything is stored in it; overflow of signed integers; a
// loop that does not end.
//
// The threads of a block are fibers of one thread: at a barrier the next one goes on, in an order
// that the caller chooses, so that nothing is left to chance.
#include <algorithm>
#include <cmath>
#include <csetjmp>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <type_traits>
#include <ucontext.h>
#include <vector>
#undef INFINITY  // not in NVRTC either
#undef NAN

#define __global__ static
#define __device__
#define __constant__ static
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(...)

struct Dim { unsigned x, y, z; };
static Dim threadIdx, blockIdx, blockDim, gridDim;
constexpr int warpSize = 32;

namespace emulator {
enum State { ready, at_block, at_warp, at_shuffle, done };
struct Fiber {
    ucontext_t context; Dim index; State state; int line; int waits; size_t path; char value[16];
    long long unheld;         // elements that it has read in which nothing is stored, less those that
    std::string unheld_first;  // it has stored: a copy of them computes nothing
    long long loads;          // of global memory
};

static ucontext_t scheduler;
static std::vector<Fiber> fibers;  // the threads of the block that runs
static std::unique_ptr<char[]> stacks;  // while a kernel runs, for each library has its own
static jmp_buf given_up;           // where a thread without fibers goes after an error
static bool switches;              // whether the kernel has barriers: else fibers are not needed
static std::string error;          // the first
static int current;                // thread
static int epoch;                  // barriers that the block has passed
static std::vector<int> warp_epochs;
static long long block_number;
static void (*body)(void*);
static void* arguments;
constexpr size_t stack_size = 64 << 10;

template <class T> T number(T known) { return known; }  // which the compiler does not know
inline std::string text(long long number) { return std::to_string(number); }
inline void fail(const std::string& message) { if (error.empty()) error = message; }
inline void fail_at(int line, const std::string& what) { fail("line " + text(line) + ": " + what); }

[[noreturn]] inline void give_up()  // the thread that runs cannot go on
{
    if (!switches) longjmp(given_up, 1);
    fibers[current].state = done;
    swapcontext(&fibers[current].context, &scheduler);
    __builtin_unreachable();
}

// -- memory: every pointer in the text becomes a Global, every array in shared memory a Shared

struct Moment { int block, warp; };  // barriers passed

struct Touch {  // who touched an element last, in this launch
    long long writer = -1, reader = -1;
    Moment written{}, read{};
    int spread = 0;       // readers without a barrier between: 0 one, 1 of one warp, 2 of several
    bool atomic = false;  // the store
    int fetched = 0;      // times that it came from memory: read before anything was stored
    long long fetcher = -1, load = 0;  // the last thread that fetched it, its loads up to then
    int waits = 0;                     // and its barriers
};

// The bytes of the cells that launches fetch, and that they store; each cell once a launch. A thread
// that comes back to a cell after many other loads, or after some and a barrier, goes over its data
// once more: by then others' data have taken the cache, and the cell is fetched again.
constexpr int many_loads = 64, some_loads = 8;
extern "C" { inline __attribute__((used)) long long bytes_fetched = 0, bytes_stored = 0; }
template <class T> void count(const std::vector<Touch>& touches)
{
    for (const auto& touch : touches) {
        bytes_fetched += touch.fetched * sizeof(T);
        bytes_stored += touch.writer >= 0 ? sizeof(T) : 0;
    }
}

inline Moment now() { return {epoch, warp_epochs[current / 32]}; }
inline long long thread_number() { return block_number * (long long)fibers.size() + current; }

// Whether a barrier lies between another thread's moment and now.
inline bool ordered(long long other, Moment then, bool of_warp)
{
    long long size = fibers.size();
    if (other / size != block_number) return false;
    if (then.block < epoch) return true;
    return of_warp && other % size / 32 == current / 32 && then.warp < now().warp;
}

// Memory that a program has not filled has all bits set: so has a float that is computed of it.
template <class T> bool is_unheld(const T& value)
{
    if constexpr (std::is_same_v<T, bool>) return value;
    auto bytes = (const unsigned char*)&value;
    return std::all_of(bytes, bytes + sizeof(T), [](unsigned char byte) { return byte == 0xff; });
}

// ``stored``: which cells of shared memory are; ``held``: the same of global memory, if some are not
template <class T> struct Memory {
    T* data; long long size; Touch* touches; bool* stored; const char* name; bool* held = nullptr;

    std::string cell(long long k) const { return std::string(name) + "[" + text(k) + "]"; }
    bool touch(long long k, bool store, bool atomic) const
    {
        if (k < 0 || k >= size) {
            fail(cell(k) + " is outside of " + text(size) + " elements");
            return false;
        }
        if (stored && !store && !stored[k]) fail_unheld(k);
        if (held && atomic && !held[k]) fail_unheld(k);
        Touch& last = touches[k];
        long long me = thread_number();
        bool other_stored = last.writer >= 0 && last.writer != me && !(atomic && last.atomic);
        bool other_read = store && last.reader >= 0 && (last.spread || last.reader != me);
        if ((other_stored && !ordered(last.writer, last.written, true))
            || (other_read && !ordered(last.reader, last.read, last.spread < 2)))
            fail("two threads touch " + cell(k) + " with no barrier between, and one stores");
        if (!store || atomic) note_fetch(last, me);
        if (store) {
            last.writer = me;
            last.written = now();
            last.atomic = atomic;
            if (stored) stored[k] = true;
        }
        if (!store) note_reader(last, me);
        return true;
    }
    void note_fetch(Touch& last, long long me) const
    {
        auto& fiber = fibers[current];
        if (stored) return;  // in shared memory
        fiber.loads++;
        auto since = fiber.loads - last.load;
        bool again = last.fetcher == me
            && since >= (last.waits != fiber.waits ? some_loads : many_loads);
        if (last.writer >= 0 || (last.fetched && !again)) return;
        last.fetched++;
        last.fetcher = me;
        last.load = fiber.loads;
        last.waits = fiber.waits;
    }
    void note_reader(Touch& last, long long me) const
    {
        bool fresh = last.reader < 0 || ordered(last.reader, last.read, last.spread < 2);
        bool one_warp = last.reader / 32 == me / 32;
        if (fresh) last.spread = 0;
        else if (last.reader != me) last.spread = std::max(last.spread, one_warp ? 1 : 2);
        last.reader = me;
        last.read = now();
    }
    void fail_unheld(long long k) const { fail(cell(k) + " is read before anything is stored"); }
    T load(long long k, bool changed = false) const
    {
        if (!touch(k, false, false)) return T();
        if (held && !held[k]) {
            if (changed) fail_unheld(k);
            auto& fiber = fibers[current];
            if (fiber.unheld++ == 0) fiber.unheld_first = cell(k);
        }
        return data[k];
    }
    void store(long long k, const std::remove_const_t<T>& value) const
    {
        if (!touch(k, true, false)) return;
        data[k] = value;
        bool copied = fibers[current].unheld > 0 && is_unheld(value);
        if (copied) fibers[current].unheld--;
        if (held) held[k] = !copied;
        else if (copied) fail_unheld(k);  // memory that was held must stay so
    }
};

template <class T> struct Loaded {  // a struct of memory that nobody stores to
    T value;
    operator T() const { return value; }
    template <class Other> requires std::is_class_v<Other>
    explicit operator Other() const { return Other(value); }  // of another precision
    const T* operator->() const { return &value; }
};

template <class T> struct Cell {
    Memory<T> of; long long k;
    operator T() const { return of.load(k); }
    template <class Other> requires std::is_class_v<Other>
    explicit operator Other() const { return Other(T(*this)); }
    T operator=(T value) const { of.store(k, value); return value; }
    T operator=(const Cell& other) const { return *this = T(other); }
    template <class V> T operator+=(V value) const { return *this = T(of.load(k, true) + value); }
    template <class V> T operator-=(V value) const { return *this = T(of.load(k, true) - value); }
    template <class V> T operator*=(V value) const { return *this = T(of.load(k, true) * value); }
    template <class V> T operator/=(V value) const { return *this = T(of.load(k, true) / value); }
    template <class V> T operator|=(V value) const { return *this = T(of.load(k, true) | value); }
    template <class V> T operator&=(V value) const { return *this = T(of.load(k, true) & value); }
    template <class V> T operator^=(V value) const { return *this = T(of.load(k, true) ^ value); }
    const Cell* operator&() const { return this; }  // for atomicAdd(&x[i], ..)
    struct Held { T value; const T* operator->() const { return &value; } };
    Held operator->() const { return {T(*this)}; }  // a part of it
    template <class F> T atomically(F combine) const
    {
        if (!of.touch(k, true, true)) return T();
        T old = of.data[k];
        of.data[k] = combine(old);  // of what is held
        return old;
    }
};

template <class T> struct Global {
    Memory<T> memory;
    operator Global<const T>() const
    {
        const auto& m = memory;
        return {{m.data, m.size, m.touches, m.stored, m.name, m.held}};
    }
    auto operator[](long long k) const
    {
        if constexpr (std::is_class_v<T> && std::is_const_v<T>)
            return Loaded<std::remove_const_t<T>>{memory.load(k)};
        else if constexpr (std::is_const_v<T>) return memory.load(k);
        else return Cell<T>{memory, k};
    }
};

struct Cleared { virtual void clear() = 0; };
static std::vector<Cleared*> shared_arrays;  // those of the launch

template <class T, int Size, int... Inner> struct Part {  // an array of arrays in shared memory
    Memory<T> memory; long long begin;
    auto operator[](long long k) const
    {
        constexpr long long step = (1LL * ... * Inner);
        bool inside = k >= 0 && k < Size && begin >= 0;
        if (!inside) fail(std::string(memory.name) + ": index " + text(k) + " is outside of " + text(Size));
        long long place = inside ? begin + k * step : -1;
        if constexpr (sizeof...(Inner) == 0) return Cell<T>{memory, place};
        else return Part<T, Inner...>{memory, place};
    }
};

template <class T, int... Sizes> struct Shared : Cleared {
    static constexpr long long size = (1LL * ... * Sizes);
    T data[size]; Touch touches[size]; bool stored[size]; const char* name;

    explicit Shared(const char* name) : name(name) { clear(); shared_arrays.push_back(this); }
    void clear() override
    {
        memset((void*)data, 0xff, sizeof data);
        std::fill_n(touches, size, Touch());
        std::fill_n(stored, size, false);
    }
    auto operator[](long long k)
    {
        return Part<T, Sizes...>{{data, size, touches, stored, name}, 0}[k];
    }
};

// Shared memory of a size that the launch says, and rows of it: parts of one type.
constexpr long long most_shared = 227 << 10;
alignas(16) static char shared_bytes[most_shared];
static Touch shared_touches[most_shared / 4];
static bool shared_stored[most_shared / 4];
static long long shared_size;  // in bytes

struct SharedPlace {
    long long byte;
    SharedPlace operator+(long long bytes) const { return {byte + bytes}; }
};

template <class T> struct SharedRow {
    Memory<T> memory; SharedPlace place;
    Cell<T> operator[](long long k) const { return {memory, k}; }
    SharedPlace operator+(long long cells) const { return place + cells * (long long)sizeof(T); }
};

template <class T> SharedRow<T> shared_row(SharedPlace place, const char* name)
{
    if (place.byte % sizeof(T)) fail(std::string(name) + " is not aligned");
    auto data = (T*)(shared_bytes + place.byte);
    long long size = (shared_size - place.byte) / (long long)sizeof(T), first = place.byte / 4;
    return {{data, size, shared_touches + first, shared_stored + first, name}, place};
}

inline void clear_dynamic()
{
    memset(shared_bytes, 0xff, shared_size);
    std::fill_n(shared_touches, shared_size / 4, Touch());
    std::fill_n(shared_stored, shared_size / 4, false);
}

// -- threads

// -- a loop that does not end: the text calls this in each iteration

constexpr long long most_steps = 20000000;  // of all threads of a launch
constexpr int most_waits = 20000;             // of a thread
static long long steps;

inline void step()
{
    if (--steps >= 0) return;
    steps = 100000;  // for each thread that is left
    fail("no end: the threads of a launch have gone around " + text(most_steps) + " times");
    give_up();
}

// The calls that have led to where a thread waits, by their return addresses: two arms of a branch
// that call one function with a barrier in it are two ways there, of which a GPU makes two barriers.
inline size_t path()
{
    char* low = &stacks[current * stack_size];
    auto frame = (char*)__builtin_frame_address(0);
    size_t found = 0;
    while (low <= frame && frame + 2 * sizeof(void*) <= low + stack_size) {
        auto cells = (size_t*)frame;
        found = found * 1000003 + cells[1];
        if (cells[0] <= (size_t)frame) break;
        frame = (char*)cells[0];
    }
    return found;
}

inline void wait(State state, int line)
{
    fibers[current].state = state;
    fibers[current].line = line;
    fibers[current].path = path();
    if (++fibers[current].waits > most_waits) {
        fail("no end: a thread has waited " + text(most_waits) + " times");
        give_up();
    }
    swapcontext(&fibers[current].context, &scheduler);
}

template <class T> T shuffle(unsigned mask, T value, int lane, int line)
{
    if (mask != 0xffffffffu || fibers.size() % 32) fail_at(line, "a shuffle without all 32 lanes");
    memcpy(fibers[current].value, &value, sizeof value);
    wait(at_shuffle, line);
    if (lane >= 0 && lane < 32)
        memcpy(&value, fibers[current / 32 * 32 + lane].value, sizeof value);
    wait(at_shuffle, line);
    return value;
}

inline unsigned ballot(unsigned mask, bool value, int line)
{
    unsigned all = 0;
    for (int lane = 0; lane < 32; lane++) all |= unsigned(shuffle(mask, value, lane, line)) << lane;
    return all;
}

inline void end_thread()
{
    const auto& fiber = fibers[current];
    if (fiber.unheld > 0) fail(fiber.unheld_first + " is read before anything is stored");
}

inline void enter()
{
    body(arguments);
    end_thread();
    fibers[current].state = done;
    swapcontext(&fibers[current].context, &scheduler);
}

// Frees the threads from..to if they wait at one and the same barrier; all of them, or, at a
// barrier of the block, all that have not returned.
inline bool release(size_t from, size_t to, State state)
{
    const Fiber* first = nullptr;
    for (size_t k = from; k < to; k++) {
        const auto& fiber = fibers[k];
        if (fiber.state == done && state == at_block) continue;
        if (fiber.state != state || (first && fiber.path != first->path)) return false;
        first = &fiber;
    }
    for (size_t k = from; k < to; k++)
        if (fibers[k].state == state) fibers[k].state = ready;
    if (state == at_block) epoch++;
    if (state == at_warp) warp_epochs[from / 32]++;
    return first;
}

inline void begin_block(const std::vector<int>& order)
{
    for (auto* array : shared_arrays) array->clear();
    clear_dynamic();
    epoch = 0;
    warp_epochs.assign(fibers.size() / 32 + 1, 0);
    for (auto k : order) {
        auto& fiber = fibers[k];
        unsigned n = k;
        fiber.index = {n % blockDim.x, n / blockDim.x % blockDim.y, n / blockDim.x / blockDim.y};
        fiber.state = ready;
        fiber.unheld = fiber.waits = fiber.loads = 0;
        if (!switches) continue;
        getcontext(&fiber.context);
        fiber.context.uc_stack.ss_sp = &stacks[k * stack_size];
        fiber.context.uc_stack.ss_size = stack_size;
        makecontext(&fiber.context, enter, 0);
    }
}

inline void run_block(const std::vector<int>& order)
{
    begin_block(order);
    for (auto k : order) {
        if (switches) break;
        current = k;
        threadIdx = fibers[k].index;
        if (!setjmp(given_up)) {
            body(arguments);
            end_thread();
        }
    }
    for (bool going = switches; going;) {
        going = false;
        for (auto k : order) {
            if (fibers[k].state != ready) continue;
            going = true;
            current = k;
            threadIdx = fibers[k].index;
                swapcontext(&scheduler, &fibers[k].context);
            }
        for (size_t k = 0; k < fibers.size(); k += 32)
            for (State state : {at_warp, at_shuffle})
                going |= release(k, std::min(k + 32, fibers.size()), state);
        going |= release(0, fibers.size(), at_block);
        for (auto& fiber : fibers)
            if (!going && fiber.state != done)
                fail_at(fiber.line, "not all threads come to this barrier");
    }
}

inline std::vector<int> shuffled(size_t size, int seed)  // 0: as numbered; 1: backward
{
    std::vector<int> order(size);
    for (size_t k = 0; k < size; k++) order[k] = seed == 1 ? size - 1 - k : k;
    std::mt19937 random(seed);
    if (seed > 1) std::shuffle(order.begin(), order.end(), random);
    return order;
}

template <class F>
const char* launch(
    const unsigned* grid, const unsigned* block, bool barriers, int seed, long long shared, F kernel)
{
    shared_size = shared;
    gridDim = {grid[0], grid[1], grid[2]};
    blockDim = {block[0], block[1], block[2]};
    body = [](void* given) { (*static_cast<F*>(given))(); };
    arguments = &kernel;
    switches = barriers;
    error.clear();
    steps = most_steps;
    fibers = std::vector<Fiber>(block[0] * block[1] * block[2]);
    if (switches) stacks.reset(new char[fibers.size() * stack_size]);  // not filled: few pages are used
    auto threads = shuffled(fibers.size(), seed);
    for (auto k : shuffled(grid[0] * grid[1] * grid[2], seed)) {
        block_number = k;
        unsigned n = k;
        blockIdx = {n % grid[0], n / grid[0] % grid[1], n / grid[0] / grid[1]};
        run_block(threads);
    }
    stacks.reset();
    return error.c_str();
}

inline int lane() { return current % 32; }

// -- what GCC's sanitizer calls; each gets the place in the text first

struct Place { const char* file; uint32_t line, column; };
}  // namespace emulator

#define CAUGHT(check, what) \
    extern "C" inline __attribute__((used)) void __ubsan_handle_##check(emulator::Place* place, ...) \
    { emulator::fail_at(place->line, what); }
CAUGHT(add_overflow, "a sum overflows")
CAUGHT(sub_overflow, "a difference overflows")
CAUGHT(mul_overflow, "a product overflows")
CAUGHT(negate_overflow, "a negation overflows")
CAUGHT(shift_out_of_bounds, "a shift by more bits than there are")
CAUGHT(out_of_bounds, "an index is outside of a local array")
CAUGHT(float_cast_overflow, "a float that no integer holds becomes one")
#undef CAUGHT
extern "C" inline __attribute__((used)) void __ubsan_handle_divrem_overflow(emulator::Place* place, ...)
{
    emulator::fail_at(place->line, "an integer is divided by zero, or its quotient overflows");
    emulator::give_up();  // the processor would end the process
}

// -- CUDA's words

#define __syncthreads() emulator::wait(emulator::at_block, __LINE__)
#define __syncwarp() emulator::wait(emulator::at_warp, __LINE__)
#define __shfl_sync(mask, value, from) emulator::shuffle(mask, value, from, __LINE__)
#define __shfl_up_sync(mask, value, by) __shfl_sync(mask, value, emulator::lane() - (by))
#define __shfl_down_sync(mask, value, by) __shfl_sync(mask, value, emulator::lane() + (by))
#define __shfl_xor_sync(mask, value, by) __shfl_sync(mask, value, emulator::lane() ^ (by))
#define __ballot_sync(mask, value) emulator::ballot(mask, value, __LINE__)
#define __any_sync(mask, value) (__ballot_sync(mask, value) != 0)
#define __all_sync(mask, value) (__ballot_sync(mask, value) == 0xffffffffu)

template <class T> T atomic_sum(T old, T value)  // of integers modulo 2**bits, as a GPU does it
{
    if constexpr (std::is_integral_v<T>) return T((unsigned long long)old + (unsigned long long)value);
    else return old + value;
}
template <class T, class V> T atomicAdd(const emulator::Cell<T>* cell, V value)
{
    return cell->atomically([&](T old) { return atomic_sum(old, T(value)); });
}
inline double atomicAdd(double* cell, double value) { return (*cell += value) - value; }
inline float atomicAdd(float* cell, float value) { return (*cell += value) - value; }
inline unsigned long long atomicAdd(unsigned long long* cell, unsigned long long value)
{
    return (*cell += value) - value;
}
template <class T, class V> T atomicMax(const emulator::Cell<T>* cell, V value)
{
    return cell->atomically([&](T old) { return std::max(old, T(value)); });
}
template <class T, class V> T atomicMin(const emulator::Cell<T>* cell, V value)
{
    return cell->atomically([&](T old) { return std::min(old, T(value)); });
}
template <class T, class V> T atomicExch(const emulator::Cell<T>* cell, V value)
{
    return cell->atomically([&](T) { return T(value); });
}
template <class T, class E, class V> T atomicCAS(const emulator::Cell<T>* cell, E expected, V value)
{
    return cell->atomically([&](T old) { return old == T(expected) ? T(value) : old; });
}

inline float __int_as_float(int bits) { float value; memcpy(&value, &bits, 4); return value; }
inline double __longlong_as_double(long long bits) { double value; memcpy(&value, &bits, 8); return value; }
inline int __float_as_int(float value) { int bits; memcpy(&bits, &value, 4); return bits; }
inline long long __double_as_longlong(double value) { long long bits; memcpy(&bits, &value, 8); return bits; }
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }
inline double normcdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }
inline double normcdfinv(double p)  // by halving: slow, and near enough
{
    if (!(p > 0 && p < 1)) return p == 0 ? -1.0 / 0.0 : p == 1 ? 1.0 / 0.0 : 0.0 / 0.0;
    double low = -40, high = 40;
    for (int k = 0; k < 200 && low < high; k++) {
        double middle = low + (high - low) / 2;
        if (middle == low || middle == high) break;
        (normcdf(middle) < p ? low : high) = middle;
    }
    return low;
}
inline double erfcinv(double y) { return -normcdfinv(y / 2) / std::sqrt(2.0); }
inline double erfinv(double y) { return y < 0 ? -erfinv(-y) : normcdfinv((1 + y) / 2) / std::sqrt(2.0); }
inline double erfcx(double x) { return std::exp(x * x) * std::erfc(x); }
inline double __dmul_rn(double a, double b) { return a * b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline double exp10(double x) { return std::pow(10.0, x); }
inline float normcdff(float x) { return normcdf(x); }
inline float normcdfinvf(float x) { return normcdfinv(x); }
inline float erfcinvf(float x) { return erfcinv(x); }
inline float erfinvf(float x) { return erfinv(x); }
inline float erfcxf(float x) { return erfcx(x); }
inline float exp10f(float x) { return exp10(x); }
using std::isfinite; using std::isinf; using std::isnan;
using std::max; using std::min;
