// What Lua finds behind ffi.C: sysbench's types and functions, and ours (bakeoff_…), which src/symbols defines.
typedef enum {
  SB_CNT_OTHER, SB_CNT_READ, SB_CNT_WRITE, SB_CNT_TRX, SB_CNT_ERROR, SB_CNT_RECONNECT,
  SB_CNT_BYTES_READ, SB_CNT_BYTES_WRITTEN, SB_CNT_MAX
} sb_counter_type;
uint64_t sb_counter_val(int thread_id, sb_counter_type type);
void sb_counter_add(int thread_id, sb_counter_type type, uint64_t val);
void sb_counter_inc(int thread_id, sb_counter_type type);
bool sb_more_events(int thread_id);
void sb_event_start(int thread_id);
void sb_event_stop(int thread_id);
void bakeoff_event_abandon(int thread_id);
bool bakeoff_event_restart(int thread_id);
void bakeoff_operation(const char *name, size_t len);
void bakeoff_think(double seconds);
bool bakeoff_barrier(void);
void bakeoff_progress(const char *label, double done, double total);
void bakeoff_log(const char *message, size_t len);
void sb_lua_set_test_args(void *args, size_t len);
void sb_print_test_options(void);
typedef struct sb_histogram sb_histogram_t;
sb_histogram_t *sb_histogram_new(size_t size, double range_min, double range_max);
void sb_histogram_delete(sb_histogram_t *h);
void sb_histogram_update(sb_histogram_t *h, double value);
void sb_histogram_print(sb_histogram_t *h);

typedef enum { SQL_ERROR_NONE, SQL_ERROR_IGNORABLE, SQL_ERROR_FATAL } sql_error_t;
typedef struct sql_driver { const char *sname; const char *lname; } sql_driver;
typedef struct sql_connection {
  int error; int sql_errno; const char *sql_state; const char *sql_errmsg; sql_driver *driver;
} sql_connection;
typedef struct { const char *host, *socket, *user, *password, *database; uint16_t port; } bakeoff_target;
sql_driver *db_create(const char *name);
int db_destroy(sql_driver *driver);
sql_connection *db_connection_create(sql_driver *driver);
sql_connection *bakeoff_connect(sql_driver *driver, const bakeoff_target *target);
int db_connection_close(sql_connection *con);
int db_connection_reconnect(sql_connection *con);
void db_connection_free(sql_connection *con);
void bakeoff_connection_collect(sql_connection *con);

typedef struct { uint32_t len; const char *ptr; } sql_value;
typedef struct { void *ptr; sql_value *values; } sql_row;
typedef struct sql_statement sql_statement;
typedef struct sql_result {
  sb_counter_type counter; uint32_t nrows; uint32_t nfields;
  sql_statement *statement; sql_row *row; sql_connection *connection;
} sql_result;
sql_result *db_query(sql_connection *con, const char *query, size_t len);
sql_row *db_fetch_row(sql_result *rs);
bool db_more_results(sql_connection *con);
sql_result *db_next_result(sql_connection *con);
int db_free_results(sql_result *rs);
const char *bakeoff_column_name(sql_result *rs, uint32_t index);
typedef enum {
  SQL_TYPE_NONE, SQL_TYPE_TINYINT, SQL_TYPE_SMALLINT, SQL_TYPE_INT, SQL_TYPE_BIGINT, SQL_TYPE_FLOAT, SQL_TYPE_DOUBLE,
  SQL_TYPE_TIME, SQL_TYPE_DATE, SQL_TYPE_DATETIME, SQL_TYPE_TIMESTAMP, SQL_TYPE_CHAR, SQL_TYPE_VARCHAR
} sql_bind_type_t;
struct sql_statement { sql_connection *connection; };
typedef struct {
  sql_bind_type_t type; void *buffer; unsigned long *data_len; unsigned long max_len; char *is_null;
} sql_bind;
sql_statement *db_prepare(sql_connection *con, const char *query, size_t len);
int db_bind_param(sql_statement *stmt, sql_bind *params, size_t len);
int db_bind_result(sql_statement *stmt, sql_bind *results, size_t len);
sql_result *db_execute(sql_statement *stmt);
sql_result *db_stmt_next_result(sql_statement *stmt);
int db_close(sql_statement *stmt);
void bakeoff_statement_free(sql_statement *stmt);

int db_bulk_insert_init(sql_connection *con, const char *query, size_t len);
int db_bulk_insert_next(sql_connection *con, const char *values, size_t len);
int db_bulk_insert_done(sql_connection *con);
void bakeoff_bulk_limit(sql_connection *con, double bytes);
int bakeoff_bulk_sbtest_rows(sql_connection *con, uint32_t table, double piece, double first, double last, uint32_t key_range);

uint32_t sb_rand_default(uint32_t a, uint32_t b);
uint32_t sb_rand_uniform(uint32_t a, uint32_t b);
uint32_t sb_rand_gaussian(uint32_t a, uint32_t b);
uint32_t sb_rand_special(uint32_t a, uint32_t b);
uint32_t sb_rand_pareto(uint32_t a, uint32_t b);
uint32_t sb_rand_zipfian(uint32_t a, uint32_t b);
uint32_t sb_rand_unique(void);
uint32_t bakeoff_rand_unique_below(uint32_t bound);
uint64_t sb_rand_uniform_uint64(void);
double sb_rand_uniform_double(void);
void sb_rand_str(const char *format, char *buffer);
void bakeoff_rand_str(const char *format, char *buffer, size_t len);
uint32_t sb_rand_varstr(char *buffer, uint32_t min_len, uint32_t max_len);
typedef struct bakeoff_texts bakeoff_texts;
bakeoff_texts *bakeoff_texts_new(sql_connection *con, const char *content, size_t len, double compressibility, char *why, size_t room);
void bakeoff_texts_free(bakeoff_texts *texts);
size_t bakeoff_texts_draw(bakeoff_texts *texts, uint32_t characters, char *buffer, size_t room);
size_t bakeoff_texts_of(bakeoff_texts *texts, double number, uint32_t characters, char *buffer, size_t room);
void bakeoff_bulk_texts(sql_connection *con, const bakeoff_texts *texts, uint32_t c_characters, uint32_t pad_characters);
