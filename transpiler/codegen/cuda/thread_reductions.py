"""The text of device functions that reduce, or scan, the values of a row's or a block's threads."""

# reductions across threads: the combination of two values, and the identity
COMBINED = {
    "sum": ("value + other", "0"),
    "product": ("value * other", "1"),
    "max": ("maximum{f}(value, other)", ""),
    "min": ("minimum{f}(value, other)", ""),
    "least": ("least{f}(value, other)", ""),
    "greatest": ("greatest{f}(value, other)", ""),
}
ROW = """\
__device__ {T} {name}({T} value)  // of a row's threads (1, 32 or 256); the same in all
{{
    if (blockDim.x == 1)
        return value;
    for (int step = 16; step > 0; step /= 2) {{
        {T} other = __shfl_xor_sync(0xffffffff, value, step);
        value = {combined};
    }}
    if (blockDim.x == 32)
        return value;
    __shared__ {T} values[8];
    __syncthreads();  // an earlier call may still be read
    if (threadIdx.x % 32 == 0)
        values[threadIdx.x / 32] = value;
    __syncthreads();
    value = values[0];
    for (int warp = 1; warp < 8; warp++) {{
        {T} other = values[warp];
        value = {combined};
    }}
    return value;
}}"""
RUNNING = """\
// of a row's threads up to each, after what was before
__device__ {T} {name}({T} before, {T} value)
{{
    for (int step = 1; step < 32; step *= 2) {{
        {T} other = __shfl_up_sync(0xffffffff, value, step);
        if (threadIdx.x % 32 >= step)
            value = {combined};
    }}
    if (blockDim.x > 32) {{
        __shared__ {T} values[8];
        __syncthreads();  // an earlier call may still be read
        if (threadIdx.x % 32 == 31)
            values[threadIdx.x / 32] = value;
        __syncthreads();
        for (int warp = 0; warp < threadIdx.x / 32; warp++) {{
            {T} other = values[warp];
            before = {before};
        }}
    }}
    {T} other = before;
    return {result};
}}"""
SIXTEEN = """\
// of sixteen values of each of a row's threads, of which ``left`` count; all get the last one
__device__ {T} {name}({T} before, {T}* values, long long left)
{{
    {T} last = values[0];
    #pragma unroll
    for (int slot = 0; slot < 16; slot++) {{
        if (slot > 0 && threadIdx.x / 32 * 512 + slot * 32 >= left)
            continue;
        {T} value = values[slot];
        for (int step = 1; step < 32; step *= 2) {{
            {T} other = __shfl_up_sync(0xffffffff, value, step);
            if (threadIdx.x % 32 >= step)
                value = {combined};
        }}
        if (slot > 0) {{
            {T} other = __shfl_sync(0xffffffff, last, 31);
            value = {combined};
        }}
        values[slot] = last = value;
    }}
    last = __shfl_sync(0xffffffff, last, 31);
    {T} value = before;
    if (blockDim.x > 32) {{
        __shared__ {T} lasts[8];
        __syncthreads();  // an earlier call may still be read
        if (threadIdx.x % 32 == 31)
            lasts[threadIdx.x / 32] = last;
        __syncthreads();
        for (int warp = 0; warp < 8; warp++) {{
            {T} other = lasts[warp];
            if (warp == threadIdx.x / 32)
                before = value;
            value = {combined};
        }}
    }}
    else {{
        {T} other = last;
        value = {combined};
    }}
    #pragma unroll
    for (int slot = 0; slot < 16; slot++) {{
        {T} other = values[slot];
        values[slot] = {before};
    }}
    return value;
}}"""
BLOCK = """\
__device__ {T} {name}({T} value)  // of a block's 256 threads, in the first
{{
    __shared__ {T} values[256];
    int thread = threadIdx.y * blockDim.x + threadIdx.x;
    __syncthreads();  // an earlier call may still be read
    values[thread] = value;
    for (int step = 128; step > 0; step /= 2) {{
        __syncthreads();
        if (thread < step) {{
            {T} other = values[thread + step];
            value = {combined};
            values[thread] = value;
        }}
    }}
    return value;
}}"""
