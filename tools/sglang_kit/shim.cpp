// Two names of torch 2.14 that torch 2.13 lacks and SGLang's compiled kernels ask for. The class is empty.
#include <cstdint>
namespace c10::cuda {
class __attribute__((visibility("default"))) CUDAErrorLogCapture { public: CUDAErrorLogCapture() noexcept; };
CUDAErrorLogCapture::CUDAErrorLogCapture() noexcept {}
void c10_cuda_check_implementation(int32_t, const char*, const char*, uint32_t, bool);
__attribute__((visibility("default"))) void c10_cuda_check_implementation(
    int32_t err, const char* file, const char* function, uint32_t line, bool assertions, CUDAErrorLogCapture*) {
  c10_cuda_check_implementation(err, file, function, line, assertions);
}
}
