/* LD_PRELOAD: the software Vulkan device plays a card of CARD_MIB MiB without a limit for one buffer; with CARD_ENFORCE=1
   it refuses what goes beyond. Nothing in llama.cpp is changed. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <vulkan/vulkan.h>

static PFN_vkGetInstanceProcAddr instance_proc;
static PFN_vkGetDeviceProcAddr device_proc;
static PFN_vkGetPhysicalDeviceProperties properties;
static PFN_vkGetPhysicalDeviceProperties2 properties2;
static PFN_vkGetPhysicalDeviceMemoryProperties memory;
static PFN_vkGetPhysicalDeviceMemoryProperties2 memory2;
static PFN_vkAllocateMemory allocate;
static PFN_vkFreeMemory release;

static unsigned long long card(void) {
    const char * mib = getenv("CARD_MIB");
    return mib ? strtoull(mib, 0, 10) << 20 : 0;
}

static void as_card(VkPhysicalDeviceProperties * p) {
    p->limits.maxStorageBufferRange = 0xFFFFFFFFu;
    p->deviceType = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
}

static void VKAPI_CALL card_properties(VkPhysicalDevice d, VkPhysicalDeviceProperties * p) {
    properties(d, p);
    as_card(p);
}

static void VKAPI_CALL card_properties2(VkPhysicalDevice d, VkPhysicalDeviceProperties2 * p) {
    properties2(d, p);
    as_card(&p->properties);
    for (VkBaseOutStructure * s = (void *) p->pNext; s; s = s->pNext) {
        if (s->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES)
            ((VkPhysicalDeviceMaintenance4Properties *) s)->maxBufferSize = 1ull << 40;
        if (s->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES)
            ((VkPhysicalDeviceMaintenance3Properties *) s)->maxMemoryAllocationSize = 1ull << 40;
    }
}

static void as_heaps(VkPhysicalDeviceMemoryProperties * p) {
    for (unsigned i = 0; card() && i < p->memoryHeapCount; i++) p->memoryHeaps[i].size = card();
}

static void VKAPI_CALL card_memory(VkPhysicalDevice d, VkPhysicalDeviceMemoryProperties * p) {
    memory(d, p);
    as_heaps(p);
}

static void VKAPI_CALL card_memory2(VkPhysicalDevice d, VkPhysicalDeviceMemoryProperties2 * p) {
    memory2(d, p);
    as_heaps(&p->memoryProperties);
}

#define MOST 65536
static struct { VkDeviceMemory memory; unsigned long long size; } blocks[MOST];
static unsigned long long used;
static int count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static VkResult VKAPI_CALL card_allocate(
    VkDevice d, const VkMemoryAllocateInfo * info, const VkAllocationCallbacks * c, VkDeviceMemory * m) {
    const char * enforce = getenv("CARD_ENFORCE");
    pthread_mutex_lock(&lock);
    VkResult result = VK_ERROR_OUT_OF_DEVICE_MEMORY;
    if (!(enforce && *enforce == '1' && card() && used + info->allocationSize > card())) {
        result = allocate(d, info, c, m);
        if (result == VK_SUCCESS) {
            used += info->allocationSize;
            blocks[count % MOST].memory = *m;
            blocks[count++ % MOST].size = info->allocationSize;
        }
    }
    pthread_mutex_unlock(&lock);
    return result;
}

static void VKAPI_CALL card_free(VkDevice d, VkDeviceMemory m, const VkAllocationCallbacks * c) {
    pthread_mutex_lock(&lock);
    for (int i = 0; m && i < count && i < MOST; i++) {
        if (blocks[i].memory == m) {
            used -= blocks[i].size;
            blocks[i].memory = 0;
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    release(d, m, c);
}

static PFN_vkVoidFunction replaced(const char * name, PFN_vkVoidFunction f) {
#define REPLACE(key, real, ours) if (f && !strcmp(name, key)) { real = (void *) f; return (PFN_vkVoidFunction) ours; }
    REPLACE("vkGetPhysicalDeviceProperties", properties, card_properties)
    REPLACE("vkGetPhysicalDeviceProperties2", properties2, card_properties2)
    REPLACE("vkGetPhysicalDeviceProperties2KHR", properties2, card_properties2)
    REPLACE("vkGetPhysicalDeviceMemoryProperties", memory, card_memory)
    REPLACE("vkGetPhysicalDeviceMemoryProperties2", memory2, card_memory2)
    REPLACE("vkGetPhysicalDeviceMemoryProperties2KHR", memory2, card_memory2)
    REPLACE("vkAllocateMemory", allocate, card_allocate)
    REPLACE("vkFreeMemory", release, card_free)
    return f;
}

static PFN_vkVoidFunction VKAPI_CALL card_device_proc(VkDevice d, const char * name) {
    return replaced(name, device_proc(d, name));
}

PFN_vkVoidFunction VKAPI_CALL vkGetInstanceProcAddr(VkInstance i, const char * name) {
    if (!instance_proc) {
        dlopen("libvulkan.so.1", RTLD_NOW | RTLD_GLOBAL);
        instance_proc = (void *) dlsym(RTLD_NEXT, "vkGetInstanceProcAddr");
    }
    if (!strcmp(name, "vkGetInstanceProcAddr")) return (PFN_vkVoidFunction) vkGetInstanceProcAddr;
    PFN_vkVoidFunction f = instance_proc(i, name);
    if (!strcmp(name, "vkGetDeviceProcAddr")) {
        device_proc = (void *) f;
        return (PFN_vkVoidFunction) card_device_proc;
    }
    return replaced(name, f);
}
