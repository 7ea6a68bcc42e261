// Lending device memory to cuGraph: see borrowed_graph.cpp.
#pragma once

#include <cugraph_c/array.h>
#include <cugraph_c/graph.h>
#include <cugraph_c/types.h>

#include <cstdint>
#include <vector>

namespace dynstore {

// One orientation of a graph as packed compressed rows, in device memory that outlives the graph made of it.
struct csr_t {
  std::uintptr_t offsets;                // number_of_vertices + 1 of vertex_type
  std::uintptr_t indices;                // number_of_edges of vertex_type, ascending in each row
  std::uintptr_t weights;                // number_of_edges of weight_type; not read unless is_weighted
  std::uintptr_t number_map;             // number_of_vertices of vertex_type: row -> the id that results show
  std::int64_t number_of_vertices;
  std::int64_t number_of_edges;
  cugraph_data_type_id_t vertex_type;    // INT32 or INT64
  cugraph_data_type_id_t weight_type;    // FLOAT32 or FLOAT64: of the weights, else of what algorithms compute with
  bool is_weighted;
  bool is_symmetric;                     // every edge stands in both rows
  bool is_transposed;                    // rows are destinations
  std::int64_t end_of_wide;              // rows from it on are below degree 1024; -1: no order by degree
  std::int64_t end_of_medium;            // rows from it on are below degree 32
};

// What a rank of several knows of the whole graph. Each rank has all edges of its rows; rows of rank 0 come first, and
// indices are numbers of the whole graph.
struct whole_t {
  std::uintptr_t handle;                   // raft::handle_t with communicators, all ranks in one row of the grid
  std::vector<std::int64_t> vertex_starts; // the first row of each rank, then the number of all: one more than ranks
  std::int64_t number_of_edges;            // of all ranks
};

// Compare a graph that the C API has made with what this library believes of its layout. Returns what differs, or
// NULL.
char const* problem_of_layout(cugraph_graph_t const* made,
                              cugraph_data_type_id_t vertex_type,
                              cugraph_data_type_id_t weight_type,
                              bool is_weighted,
                              bool is_transposed,
                              bool is_multi_gpu,
                              std::int64_t num_vertices);

// Let a graph object of pylibcugraph have a view of its weights, if its class has a place for one.
template <typename object_t>
void set_weights_view(object_t* object, cugraph_type_erased_device_array_view_t* view)
{
  if constexpr (requires { object->weights_view_ptr; }) { object->weights_view_ptr = view; }
}

// Make a graph of the C API over the memory, without a copy. To be freed by cugraph_graph_free, which leaves the
// memory alone. Throws std::invalid_argument.
cugraph_graph_t* lend_graph(csr_t const& csr);

// The same for one rank of several: all call it. The rows in `csr` are those of this rank, in order of falling degree.
cugraph_graph_t* lend_shard(csr_t const& csr, whole_t const& whole);

}  // namespace dynstore
