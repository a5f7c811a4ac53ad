// llama-server's start without HTTP: the argument parser, the slots, the output limits, model, context, draft context.
// COUNT_ONLY=1: what each device would hold, without loading. FIT_ONLY=1: what --fit decides.
// MEASURE=1: what the first NVIDIA GPU has in use before and after the load, after a batch, a prompt and 16 tokens.
#include "arg.h"
#include "common.h"
#include "fit.h"
#include "llama.h"
#include "log.h"
#include "speculative.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <unistd.h>
#include <vector>

// tools/server/server-context.cpp, server_output_limits
static void set_output_limits(common_params & params) {
    const bool pools = params.pooling_type != LLAMA_POOLING_TYPE_UNSPECIFIED && params.pooling_type != LLAMA_POOLING_TYPE_NONE;
    if (params.embedding || pools) {
        params.n_outputs_max = params.n_batch;
        params.n_outputs_max_per_seq = 1;
        return;
    }
    const auto limits = common_speculative_get_output_limits(
        params.n_batch, params.n_parallel, common_speculative_n_max(&params.speculative));
    params.n_outputs_max = std::max(1, (int) limits.total);
    params.n_outputs_max_per_seq = std::max(1, (int) limits.per_seq);
}

static void print_fit(common_params & params) {
    auto model = common_model_params_to_llama(params);
    auto context = common_context_params_to_llama(params);
    const auto status = common_fit_params(
        params.model.path.c_str(), &model, &context, params.tensor_split, params.tensor_buft_overrides.data(),
        params.fit_params_target.data(), params.fit_params_min_ctx, nullptr, GGML_LOG_LEVEL_ERROR);
    common_log_flush(common_log_main());
    fprintf(stderr, "FIT: status=%d c=%u ngl=%d ts=", (int) status, context.n_ctx, model.n_gpu_layers);
    for (int i = 0; i < 3; i++) {
        fprintf(stderr, "%g,", model.tensor_split ? model.tensor_split[i] : 0.0f);
    }
    fprintf(stderr, " ot=");
    for (auto * rule = model.tensor_buft_overrides; rule && rule->pattern; rule++) {
        fprintf(stderr, "%s=%s,", rule->pattern, ggml_backend_buft_name(rule->buft));
    }
    fprintf(stderr, "\n");
}

// NVML's own structures, so that nothing of CUDA is needed to build this.
static void print_used(const char * moment) {
    static unsigned long long memory[3]; // total, free, used
    static void * device = nullptr;
    static int (*read_memory)(void *, void *) = nullptr;
    if (!getenv("MEASURE")) {
        return;
    }
    if (!device) {
        void * library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
        if (!library) {
            return;
        }
        ((int (*)()) dlsym(library, "nvmlInit_v2"))();
        ((int (*)(unsigned, void **)) dlsym(library, "nvmlDeviceGetHandleByIndex_v2"))(0, &device);
        read_memory = (int (*)(void *, void *)) dlsym(library, "nvmlDeviceGetMemoryInfo");
    }
    read_memory(device, memory);
    printf("MEM: %s nvml_used=%llu\n", moment, memory[2]);
    fflush(stdout);
}

// As a server meets them: a short batch, then a prompt that fills the first slot in steps of n_batch, then tokens.
static void serve(llama_context * context, bool encodes) {
    const int batch = llama_n_batch(context), slot = llama_n_ctx_seq(context);
    std::vector<llama_token> tokens(batch, 3);
    llama_decode(context, llama_batch_get_one(tokens.data(), std::min(batch, encodes ? 16 : 2)));
    print_used("first_batch");
    const int prompt = std::min(slot - 64, 8192);
    for (int done = 0; done + batch <= prompt; done += batch) {
        if (encodes) {
            llama_memory_clear(llama_get_memory(context), false);
        }
        llama_decode(context, llama_batch_get_one(tokens.data(), batch));
    }
    print_used("prompt");
    for (int i = 0; i < 16 && !encodes; i++) {
        llama_decode(context, llama_batch_get_one(tokens.data(), 1));
    }
    print_used("tokens");
}

int main(int argc, char ** argv) {
    common_params params;
    common_init();
    if (!common_params_parse(argc, argv, params, LLAMA_EXAMPLE_SERVER)) {
        return 1;
    }
    print_used("start");
    llama_backend_init();
    if (params.embedding) {
        params.n_batch = std::min(params.n_batch, params.n_ubatch);
    }
    if (params.n_parallel < 0) {
        params.n_parallel = 4;
        params.kv_unified = true;
    }
    set_output_limits(params);
    if (getenv("COUNT_ONLY")) {
        auto model = common_model_params_to_llama(params);
        auto context = common_context_params_to_llama(params);
        common_fit_print(params.model.path.c_str(), &model, &context);
        fflush(stdout);
        _exit(0);
    }
    if (getenv("FIT_ONLY")) {
        print_fit(params);
        _exit(0);
    }
    auto start = common_init_from_params(params);
    common_log_flush(common_log_main());
    if (!start->model() || !start->context()) {
        fprintf(stderr, "LOAD: failed\n");
        return 1;
    }
    const auto & types = params.speculative.types;
    const bool predicts = std::find(types.begin(), types.end(), COMMON_SPECULATIVE_TYPE_DRAFT_MTP) != types.end();
    if (params.speculative.has_dft() || predicts) {
        common_params draft = common_base_params_to_speculative(params);
        auto context = common_speculative_init_from_params(draft, start->model(), start->context());
        common_log_flush(common_log_main());
        fprintf(stderr, "LOAD: draft %s\n", context->context() ? "ok" : "failed");
    }
    print_used("loaded");
    common_memory_breakdown_print(start->context());
    common_log_flush(common_log_main());
    if (getenv("MEASURE")) {
        serve(start->context(), params.embedding);
    }
    fprintf(stderr, "LOAD: ok\n");
    return 0;
}
