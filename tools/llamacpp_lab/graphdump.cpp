// LD_PRELOAD: every graph that llama.cpp reserves memory for, as one line of JSON in the file $GRAPH_DUMP:
// tensors [op, name, type, ne, nb, sources, viewed tensor, flags, backend, buffer, the buffer's usage], leaves and nodes.
#include "ggml-backend.h"
#include "ggml-impl.h"

#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <string>
#include <unordered_map>
#include <vector>

namespace {

struct Numbers {
    std::unordered_map<const ggml_tensor *, int> of;
    std::vector<const ggml_tensor *> all;

    int number(const ggml_tensor * tensor) {
        const auto [at, is_new] = of.emplace(tensor, (int) all.size());
        if (is_new) {
            all.push_back(tensor);
        }
        return at->second;
    }
};

int backend_of(ggml_backend_sched_t sched, const ggml_tensor * tensor) {
    for (int i = 0; i < ggml_backend_sched_get_n_backends(sched); i++) {
        if (ggml_backend_sched_get_tensor_backend(sched, (ggml_tensor *) tensor) == ggml_backend_sched_get_backend(sched, i)) {
            return i;
        }
    }
    return -1;
}

void write_tensor(FILE * file, ggml_backend_sched_t sched, Numbers & numbers, const ggml_tensor * t) {
    std::string name(t->name);
    for (auto & letter : name) {
        letter = letter == '"' || letter == '\\' || (unsigned char) letter < 32 ? '_' : letter;
    }
    const auto * ne = t->ne;
    const auto * nb = t->nb;
    fprintf(file, "[\"%s\",\"%s\",\"%s\",[%ld,%ld,%ld,%ld],[%zu,%zu,%zu,%zu],[", ggml_op_name(t->op), name.c_str(),
            ggml_type_name(t->type), (long) ne[0], (long) ne[1], (long) ne[2], (long) ne[3], nb[0], nb[1], nb[2], nb[3]);
    const char * comma = "";
    for (const auto * source : t->src) {
        if (source) {
            fprintf(file, "%s%d", comma, numbers.number(source));
            comma = ",";
        }
    }
    ggml_backend_buffer_t buffer = t->view_src ? t->view_src->buffer : t->buffer;
    fprintf(file, "],%d,%d,%d,\"%s\",%d]", t->view_src ? numbers.number(t->view_src) : -1, t->flags, backend_of(sched, t),
            buffer ? ggml_backend_buffer_name(buffer) : "", buffer ? (int) ggml_backend_buffer_get_usage(buffer) : -1);
}

void write_numbers(FILE * file, Numbers & numbers, const char * key, ggml_tensor ** tensors, int count) {
    fprintf(file, "\"%s\":[", key);
    for (int i = 0; i < count; i++) {
        fprintf(file, "%s%d", i ? "," : "", numbers.number(tensors[i]));
    }
    fprintf(file, "],");
}

void write_graph(ggml_backend_sched_t sched, const ggml_cgraph * graph, const char * how) {
    const char * path = getenv("GRAPH_DUMP");
    FILE * file = path ? fopen(path, "a") : nullptr;
    if (!file) {
        return;
    }
    Numbers numbers;
    fprintf(file, "{\"how\":\"%s\",", how);
    write_numbers(file, numbers, "leafs", graph->leafs, graph->n_leafs);
    write_numbers(file, numbers, "nodes", graph->nodes, graph->n_nodes);
    fprintf(file, "\"t\":[");
    for (size_t i = 0; i < numbers.all.size(); i++) {
        fprintf(file, i ? "," : "");
        write_tensor(file, sched, numbers, numbers.all[i]);
    }
    fprintf(file, "]}\n");
    fclose(file);
}

template <typename F> F next(const char * name) { return (F) dlsym(RTLD_NEXT, name); }

}  // namespace

extern "C" {

bool ggml_backend_sched_reserve(ggml_backend_sched_t sched, ggml_cgraph * graph) {
    write_graph(sched, graph, "reserve");
    return next<bool (*)(ggml_backend_sched_t, ggml_cgraph *)>("ggml_backend_sched_reserve")(sched, graph);
}

void ggml_backend_sched_reserve_size(ggml_backend_sched_t sched, ggml_cgraph * graph, size_t * sizes) {
    write_graph(sched, graph, "count");
    next<void (*)(ggml_backend_sched_t, ggml_cgraph *, size_t *)>("ggml_backend_sched_reserve_size")(sched, graph, sizes);
}

}
