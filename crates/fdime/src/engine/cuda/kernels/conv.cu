// Convolutions (nn/conv.rs) are products of windows with weights. These kernels gather the windows
// of images, one in each row, and add up the gradients of the windows that a pixel is in.

const int WINDOW = 5, STRIDE = 2, PADDING = 2;

struct WindowTask {
    Pairs pairs;
    Buffer x, y;       // the images of the pairs, or in x the outputs of the convolution below
    Buffer windows;    // rows x places x places x (WINDOW x WINDOW x channels), or their gradient
    Buffer gradient;   // of the outputs of the convolution below
    int side, places;  // pixels and windows along a side
    int channels, x_channels;
    int ld_x, ld_y, ld_windows;
};

// One warp for each window: its row and the place of its first pixel.
struct Place {
    int window, row, top, left;
    __device__ explicit Place(const WindowTask& t) {
        window = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
        row = window / (t.places * t.places);
        int place = window - row * t.places * t.places;
        top = place / t.places * STRIDE - PADDING;
        left = place % t.places * STRIDE - PADDING;
    }
    // Returns the pixel of tap k of the window, or -1 outside of the image.
    __device__ int pixel(const WindowTask& t, int tap) const {
        int line = top + tap / WINDOW, column = left + tap % WINDOW;
        bool inside = (u32)line < (u32)t.side && (u32)column < (u32)t.side;
        return inside ? line * t.side + column : -1;
    }
};

// The channels of x and y become the channels of one image.
extern "C" __global__ void windows_of_pairs(const __grid_constant__ WindowTask t) {
    begin();
    Place place(t);
    int lane = threadIdx.x % 32, run = blockIdx.z;
    if (place.row >= t.pairs.rows) return;
    Pair pair = locate(t.pairs, partners(t.pairs, run), place.row);
    const float* x = t.x.of(run) + (u64)pair.i * t.ld_x;
    const float* y = t.y.of(run) + (u64)pair.j * t.ld_y;
    float* window = t.windows.of(run) + (u64)place.window * t.ld_windows;
    int y_channels = t.channels - t.x_channels;
    for (int k = lane; k < WINDOW * WINDOW * t.channels; k += 32) {
        int tap = k / t.channels, channel = k - tap * t.channels, pixel = place.pixel(t, tap);
        float value = 0.f;
        if (pixel >= 0)
            value = channel < t.x_channels ? x[pixel * t.x_channels + channel]
                                           : y[pixel * y_channels + channel - t.x_channels];
        window[k] = value;
    }
}

// Four channels at a time.
extern "C" __global__ void windows_of_images(const __grid_constant__ WindowTask t) {
    begin();
    Place place(t);
    int lane = threadIdx.x % 32, run = blockIdx.z;
    if (place.row >= t.pairs.rows) return;
    const float* image = t.x.of(run) + (u64)place.row * t.side * t.side * t.channels;
    float* window = t.windows.of(run) + (u64)place.window * t.ld_windows;
    int fours = t.channels / 4;
    for (int k = lane; k < WINDOW * WINDOW * fours; k += 32) {
        int tap = k / fours, four = k - tap * fours, pixel = place.pixel(t, tap);
        float4 value = pixel >= 0 ? load4(image + pixel * t.channels + 4 * four) : zero4();
        *reinterpret_cast<float4*>(window + 4 * k) = value;
    }
}

// One thread for four channels of a pixel. Pixel = STRIDE * place + tap - PADDING along both sides.
extern "C" __global__ void images_gradient(const __grid_constant__ WindowTask t) {
    begin();
    int index = blockIdx.x * blockDim.x + threadIdx.x, run = blockIdx.z;
    int fours = t.channels / 4, pixels = t.side * t.side;
    int four = index % fours, pixel = index / fours % pixels, row = index / fours / pixels;
    if (row >= t.pairs.rows) return;
    int line = pixel / t.side + PADDING, column = pixel % t.side + PADDING;
    const float* windows = t.windows.of(run) + (u64)row * t.places * t.places * t.ld_windows;
    float4 sum = zero4();
    for (int v = line % STRIDE; v < WINDOW; v += STRIDE) {
        int top = (line - v) / STRIDE;
        if (line < v || top >= t.places) continue;
        for (int h = column % STRIDE; h < WINDOW; h += STRIDE) {
            int left = (column - h) / STRIDE;
            if (column < h || left >= t.places) continue;
            const float* window = windows + (u64)(top * t.places + left) * t.ld_windows;
            sum = sum + load4(window + (v * WINDOW + h) * t.channels + 4 * four);
        }
    }
    u64 at = ((u64)row * pixels + pixel) * t.channels + 4 * four;
    float4 output = load4(t.x.of(run) + at);
    *reinterpret_cast<float4*>(t.gradient.of(run) + at) =
        make_float4(times_slope(sum.x, output.x), times_slope(sum.y, output.y),
                    times_slope(sum.z, output.z), times_slope(sum.w, output.w));
}
