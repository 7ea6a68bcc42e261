// A graph of cuGraph's C API over memory that somebody else owns.
//
// cuGraph's own entry points copy and sort what they are given. Its C++ graph, though, takes over packed rows as they
// are, by moving device vectors into it. A device vector gets its memory from a memory resource, so one whose resource
// hands out the lender's pointer, and takes it back by doing nothing, is a view that is shaped like an owner.
#include "borrowed_graph.hpp"

#include <cugraph/edge_property.hpp>
#include <cugraph/graph.hpp>
#include <cugraph/partition_manager.hpp>

#include <raft/core/comms.hpp>
#include <raft/core/handle.hpp>

#include <rmm/device_uvector.hpp>
#include <rmm/mr/callback_memory_resource.hpp>

#include <malloc.h>

#include <cstddef>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

namespace dynstore {
namespace {

// What cugraph_graph_t points to inside libcugraph_c (RAPIDS 26.10). No header that ships says so: problem_of_layout
// compares it with a graph that libcugraph_c has made.
struct c_graph_t {
  cugraph_data_type_id_t vertex_type;
  cugraph_data_type_id_t edge_type;
  cugraph_data_type_id_t weight_type;
  cugraph_data_type_id_t edge_type_id_type;
  cugraph_data_type_id_t edge_time_type;
  bool store_transposed;
  bool multi_gpu;
  void* graph;
  void* number_map;
  void* edge_weights;
  void* edge_ids;
  void* edge_types;
  void* edge_start_times;
  void* edge_end_times;
};

static_assert(offsetof(c_graph_t, graph) == 24 && sizeof(c_graph_t) == 80, "an unexpected layout of pointers or enums");

template <typename T>
rmm::device_uvector<T> view_of(std::uintptr_t pointer, std::size_t size, raft::handle_t const& handle)
{
  rmm::mr::callback_memory_resource lender(
    [](std::size_t, cuda::stream_ref, void* memory) { return memory; },
    [](void*, std::size_t, cuda::stream_ref, void*) {},
    reinterpret_cast<void*>(pointer));
  return rmm::device_uvector<T>(size, handle.get_stream(), lender);
}

// The ends of the segments of rows by degree. The last segment is skipped as one of vertices without
// edges: it is left empty, so that nothing depends on it.
template <typename vertex_t>
std::vector<vertex_t> segments_of(csr_t const& csr)
{
  auto const num_vertices = static_cast<vertex_t>(csr.number_of_vertices);
  return {0,
          static_cast<vertex_t>(csr.end_of_wide),
          static_cast<vertex_t>(csr.end_of_medium),
          num_vertices,
          num_vertices};
}

// A graph of one GPU.
template <typename vertex_t, bool is_transposed>
auto graph_of(csr_t const& csr, raft::handle_t const& handle)
{
  auto const num_vertices = static_cast<std::size_t>(csr.number_of_vertices);
  auto const num_edges    = static_cast<std::size_t>(csr.number_of_edges);
  std::optional<std::vector<vertex_t>> segments{std::nullopt};
  if (csr.end_of_wide >= 0) { segments = segments_of<vertex_t>(csr); }
  return std::make_unique<cugraph::graph_t<vertex_t, vertex_t, is_transposed, false>>(
    handle,
    view_of<vertex_t>(csr.offsets, num_vertices + 1, handle),
    view_of<vertex_t>(csr.indices, num_edges, handle),
    cugraph::graph_meta_t<vertex_t, vertex_t, false>{static_cast<vertex_t>(num_vertices),
                                                     cugraph::graph_properties_t{csr.is_symmetric, false},
                                                     std::move(segments),
                                                     std::nullopt});
}

// A rank's part of a graph of several GPUs: one edge partition, whose rows are the rank's own and whose columns are all.
template <typename vertex_t, bool is_transposed>
auto graph_of(csr_t const& csr, raft::handle_t const& handle, whole_t const& whole)
{
  auto const size = handle.get_comms().get_size();
  auto const rank = handle.get_comms().get_rank();
  auto const& row = handle.get_subcomm(cugraph::partition_manager::major_comm_name());
  auto const& column = handle.get_subcomm(cugraph::partition_manager::minor_comm_name());
  if (row.get_size() != size || column.get_size() != 1) {
    throw std::invalid_argument("BorrowedMGGraph: the ranks of the handle are not in one row of the grid");
  }
  std::vector<vertex_t> const starts(whole.vertex_starts.begin(), whole.vertex_starts.end());
  if (starts.size() != static_cast<std::size_t>(size) + 1 ||
      whole.vertex_starts[rank + 1] - whole.vertex_starts[rank] != csr.number_of_vertices) {
    throw std::invalid_argument("BorrowedMGGraph: vertex_starts do not fit the ranks or the rows of this one");
  }
  std::vector<rmm::device_uvector<vertex_t>> offsets{};
  std::vector<rmm::device_uvector<vertex_t>> indices{};
  offsets.push_back(view_of<vertex_t>(csr.offsets, static_cast<std::size_t>(csr.number_of_vertices) + 1, handle));
  indices.push_back(view_of<vertex_t>(csr.indices, static_cast<std::size_t>(csr.number_of_edges), handle));
  return std::make_unique<cugraph::graph_t<vertex_t, vertex_t, is_transposed, true>>(
    handle,
    std::move(offsets),
    std::move(indices),
    std::nullopt,
    cugraph::graph_meta_t<vertex_t, vertex_t, true>{
      starts.back(),
      static_cast<vertex_t>(whole.number_of_edges),
      cugraph::graph_properties_t{csr.is_symmetric, false},
      cugraph::partition_t<vertex_t>{starts, size, 1, row.get_rank(), column.get_rank()},
      segments_of<vertex_t>(csr),
      std::nullopt});
}

template <typename vertex_t, typename weight_t, bool is_transposed>
cugraph_graph_t* lend(csr_t const& csr, whole_t const* whole)
{
  using weights_t = cugraph::edge_property_t<vertex_t, weight_t>;

  raft::handle_t const own{};
  auto const& handle = whole == nullptr ? own : *reinterpret_cast<raft::handle_t const*>(whole->handle);
  auto number_map    = std::make_unique<rmm::device_uvector<vertex_t>>(
    view_of<vertex_t>(csr.number_map, static_cast<std::size_t>(csr.number_of_vertices), handle));
  std::unique_ptr<weights_t> weights{};
  if (csr.is_weighted) {
    std::vector<rmm::device_uvector<weight_t>> partitions{};
    partitions.push_back(view_of<weight_t>(csr.weights, static_cast<std::size_t>(csr.number_of_edges), handle));
    weights = std::make_unique<weights_t>(std::move(partitions));
  }
  auto lent = std::make_unique<c_graph_t>(c_graph_t{csr.vertex_type,
                                                    csr.vertex_type,
                                                    csr.weight_type,
                                                    INT32,  // edge types and times: there are none, but the
                                                    INT32,  // dispatch by type wants a valid one for each
                                                    is_transposed,
                                                    whole != nullptr,
                                                    nullptr,
                                                    nullptr,
                                                    nullptr,
                                                    nullptr,
                                                    nullptr,
                                                    nullptr,
                                                    nullptr});
  if (whole == nullptr) {
    lent->graph = graph_of<vertex_t, is_transposed>(csr, handle).release();
  } else {
    lent->graph = graph_of<vertex_t, is_transposed>(csr, handle, *whole).release();
  }
  lent->number_map   = number_map.release();
  lent->edge_weights = weights.release();
  return reinterpret_cast<cugraph_graph_t*>(lent.release());
}

template <typename vertex_t, typename weight_t>
cugraph_graph_t* lend(csr_t const& csr, whole_t const* whole)
{
  return csr.is_transposed ? lend<vertex_t, weight_t, true>(csr, whole) : lend<vertex_t, weight_t, false>(csr, whole);
}

template <typename vertex_t>
cugraph_graph_t* lend(csr_t const& csr, whole_t const* whole)
{
  constexpr std::int64_t limit = std::numeric_limits<vertex_t>::max();
  auto const num_vertices      = whole == nullptr ? csr.number_of_vertices : whole->vertex_starts.back();
  auto const num_edges         = whole == nullptr ? csr.number_of_edges : whole->number_of_edges;
  if (num_vertices < 0 || num_edges < 0 || num_vertices >= limit || num_edges >= limit) {
    throw std::invalid_argument("BorrowedGraph: more vertices or edges than the vertex type can count");
  }
  if (csr.end_of_wide > csr.end_of_medium || csr.end_of_medium > csr.number_of_vertices ||
      (whole != nullptr && csr.end_of_wide < 0)) {
    throw std::invalid_argument("BorrowedGraph: the degree segments are not in order");
  }
  switch (csr.weight_type) {
    case FLOAT32: return lend<vertex_t, float>(csr, whole);
    case FLOAT64: return lend<vertex_t, double>(csr, whole);
    default: throw std::invalid_argument("BorrowedGraph: weights must be float32 or float64");
  }
}

cugraph_graph_t* lend(csr_t const& csr, whole_t const* whole)
{
  switch (csr.vertex_type) {
    case INT32: return lend<std::int32_t>(csr, whole);
    case INT64: return lend<std::int64_t>(csr, whole);
    default: throw std::invalid_argument("BorrowedGraph: vertices must be int32 or int64");
  }
}

template <typename vertex_t, bool is_transposed, bool is_multi_gpu>
std::int64_t number_of_vertices(void* graph)
{
  return static_cast<cugraph::graph_t<vertex_t, vertex_t, is_transposed, is_multi_gpu>*>(graph)->number_of_vertices();
}

template <typename vertex_t, bool is_transposed>
std::int64_t number_of_vertices(void* graph, bool is_multi_gpu)
{
  return is_multi_gpu ? number_of_vertices<vertex_t, is_transposed, true>(graph)
                      : number_of_vertices<vertex_t, is_transposed, false>(graph);
}

}  // namespace

char const* problem_of_layout(cugraph_graph_t const* made,
                              cugraph_data_type_id_t vertex_type,
                              cugraph_data_type_id_t weight_type,
                              bool is_weighted,
                              bool is_transposed,
                              bool is_multi_gpu,
                              std::int64_t num_vertices)
{
  // First its size, so that nothing behind its end is read. The allocator rounds sizes up to 16 bytes, and adds up to 16
  // more if it takes a free block that leaves too little to be split off.
  auto const size = malloc_usable_size(const_cast<cugraph_graph_t*>(made));
  if (size < sizeof(c_graph_t) || size >= sizeof(c_graph_t) + 32) { return "cugraph_graph_t has another size"; }
  auto const& graph = *reinterpret_cast<c_graph_t const*>(made);
  if (graph.vertex_type != vertex_type || (is_weighted && graph.weight_type != weight_type)) {
    return "types are in another place";
  }
  if (graph.store_transposed != is_transposed || graph.multi_gpu != is_multi_gpu) {
    return "flags are in another place";
  }
  if (graph.graph == nullptr || graph.number_map == nullptr) { return "the graph is in another place"; }
  if ((graph.edge_weights != nullptr) != is_weighted) { return "weights are in another place"; }
  if (graph.edge_ids != nullptr || graph.edge_types != nullptr || graph.edge_start_times != nullptr ||
      graph.edge_end_times != nullptr) {
    return "ids, types or times of edges are in another place";
  }
  auto const is_int32 = vertex_type == INT32;
  auto const count    = is_transposed ? (is_int32 ? number_of_vertices<std::int32_t, true>(graph.graph, is_multi_gpu)
                                                  : number_of_vertices<std::int64_t, true>(graph.graph, is_multi_gpu))
                                      : (is_int32 ? number_of_vertices<std::int32_t, false>(graph.graph, is_multi_gpu)
                                                  : number_of_vertices<std::int64_t, false>(graph.graph, is_multi_gpu));
  return count == num_vertices ? nullptr : "the C++ graph has another layout";
}

cugraph_graph_t* lend_graph(csr_t const& csr) { return lend(csr, nullptr); }

cugraph_graph_t* lend_shard(csr_t const& csr, whole_t const& whole)
{
  if (whole.handle == 0 || whole.vertex_starts.empty()) {
    throw std::invalid_argument("BorrowedMGGraph: a handle and the vertices of the ranks are needed");
  }
  return lend(csr, &whole);
}

}  // namespace dynstore
