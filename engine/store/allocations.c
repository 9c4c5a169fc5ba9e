#include "engine/store/allocations.h"

#include "engine/store/sql.h"

FR_SQL_ADD(fr_store_allocation_add, allocation, SQL_ALLOCATION_ADD)
FR_SQL_PUT(fr_store_allocation_set, allocation, SQL_ALLOCATION_SET)
FR_SQL_LIST_OF_RUN(fr_store_allocations, allocation, SQL_ALLOCATIONS)
FR_SQL_LIST(fr_store_allocations_open, allocation, SQL_ALLOCATIONS_OPEN)
