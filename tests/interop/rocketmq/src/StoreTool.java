import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.Proxy;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.common.SystemClock;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageExtBatch;
import org.apache.rocketmq.common.message.MessageExtBrokerInner;
import org.apache.rocketmq.common.sysflag.MessageSysFlag;
import org.apache.rocketmq.remoting.protocol.EpochEntry;
import org.apache.rocketmq.store.AppendMessageResult;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.DispatchRequest;
import org.apache.rocketmq.store.PutMessageResult;
import org.apache.rocketmq.store.SelectMappedBufferResult;
import org.apache.rocketmq.store.StoreCheckpoint;
import org.apache.rocketmq.store.config.BrokerRole;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.ha.HAService;
import org.apache.rocketmq.store.ha.autoswitch.AutoSwitchHAService;
import org.apache.rocketmq.store.ha.autoswitch.BrokerMetadata;
import org.apache.rocketmq.store.ha.autoswitch.EpochFileCache;
import org.apache.rocketmq.store.index.IndexService;
import org.apache.rocketmq.store.queue.ConsumeQueueInterface;
import org.apache.rocketmq.store.queue.CqUnit;
import org.apache.rocketmq.store.queue.ReferredIterator;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

/**
 * Opens, reports, extends, truncates and closes RocketMQ stores on command.
 *
 * <p>One JSON object per line of standard input is a job, one line of standard
 * output its answer. At the end of the input the process halts: a store that
 * was not closed is left as a killed broker leaves it. Keys of answers are
 * those of tests/golden/README.md.
 *
 * <pre>
 * {"do":"open",     "root":R, "config":{..}, "slave":B}  load and start; B: as a slave
 * {"do":"follow",   "root":R, "epoch":N, "brokerId":N, "address":A}  a slave's master
 * {"do":"lead",     "root":R, "epoch":N, "brokerId":N}     a store that was to be a slave
 * {"do":"standing", "root":R, "end":N, "confirm":N, "timeoutMs":N}  waits for a slave
 * {"do":"random",   "root":R, "seed":N, "odd":B, "count":N,
 *  "again":B}  a new store: {@link RandomStore}
 * {"do":"report",   "root":R, "queries":[{"topic","key"}]} all that can be read
 * {"do":"append",   "root":R, "messages":[{..}]}
 * {"do":"truncate", "root":R, "offset":N}
 * {"do":"close",    "roots":[R,..]}                     clean shutdown, together
 * {"do":"leave",    "roots":[R,..]}                     the same, without waiting for it
 * {"do":"epochs",   "root":R, "cut":N, "append":[[epoch,start],..]}
 * {"do":"identity", "root":R, "write":[cluster,broker,id]}
 * {"do":"checkpoint", "root":R, "write":[physic,logics,index,master,confirm]}
 * </pre>
 */
public final class StoreTool {
    private static final Gson GSON =
        new GsonBuilder().serializeNulls().disableHtmlEscaping().create();
    /** Without those that only a broker has, which a deleted topic leaves. */
    private static final BrokerStatsManager STATS =
        new BrokerStatsManager("interop", false) {
            @Override
            public void onTopicDeleted(String topic) {}
        };
    private static final long DISPATCH_TIMEOUT_MS = 20_000;

    private final Map<String, Store> stores = new LinkedHashMap<>();

    public static void main(String[] arguments) throws IOException {
        PrintStream out = new PrintStream(System.out, true, "UTF-8");
        BufferedReader in = new BufferedReader(
            new InputStreamReader(System.in, StandardCharsets.UTF_8));
        StoreTool tool = new StoreTool();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(GSON.toJson(tool.answer(line)));
        }
        Runtime.getRuntime().halt(0);
    }

    private Object answer(String line) {
        try {
            return run(JsonParser.parseString(line).getAsJsonObject());
        } catch (Throwable failure) {
            // The caller turns it into its own exception, with this text.
            StackTraceElement[] trace = failure.getStackTrace();
            return Map.of("failure", failure + " at " + (trace.length > 0 ? trace[0] : "?"));
        }
    }

    private Object run(JsonObject job) throws Exception {
        switch (job.get("do").getAsString()) {
            case "open":
                return open(job);
            case "random":
                return random(job);
            case "report":
                return report(opened(job), job);
            case "append":
                return append(opened(job), job);
            case "follow":
                return follow(opened(job), job);
            case "lead":
                return lead(opened(job), job);
            case "standing":
                return standing(opened(job), job);
            case "truncate":
                return truncate(opened(job), job.get("offset").getAsLong());
            case "close":
                return close(job, true);
            case "leave":
                return close(job, false);
            case "epochs":
                return epochs(job);
            case "identity":
                return identity(job);
            case "checkpoint":
                return checkpoint(job);
            default:
                throw new IllegalArgumentException("unknown job " + job.get("do"));
        }
    }

    private Store opened(JsonObject job) {
        String root = job.get("root").getAsString();
        Store store = stores.get(root);
        if (store == null) {
            throw new IllegalStateException("not open: " + root);
        }
        return store;
    }

    // ------------------------------------------------------------ open, close

    private Object open(JsonObject job) throws Exception {
        String root = job.get("root").getAsString();
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("abortFilePresent", new File(root, "abort").exists());
        Store store = new Store(configuration(root, job.getAsJsonObject("config")),
            new ConcurrentHashMap<>(),
            job.has("slave") && job.get("slave").getAsBoolean());
        boolean loaded = store.load();
        result.put("loadOk", loaded);
        if (!loaded) {
            return result;
        }
        result.putAll(store.ends());
        result.putAll(checkpointValues(store.getStoreCheckpoint()));
        // As JSON at once: starting goes on to change the table.
        result.put("queueOffsetTableAfterLoad",
            GSON.toJsonTree(store.topicQueueTable()));
        result.put("commitlogFilesAfterRecovery", lengths(new File(root, "commitlog")));
        try {
            store.start();
        } catch (RuntimeException refused) {
            // A held lock is an answer, not a failure of the tool.
            result.put("startError", refused.getMessage());
            return result;
        }
        store.awaitDispatch();
        result.put("maxPhyOffsetAfterStart", store.getMaxPhyOffset());
        stores.put(root, store);
        return result;
    }

    /** A new store with random content; it stays open. */
    private Object random(JsonObject job) throws Exception {
        String root = job.get("root").getAsString();
        RandomStore draw = new RandomStore(
            job.get("seed").getAsLong(), job.get("odd").getAsBoolean());
        JsonObject keys = draw.configuration();
        Store store = new Store(configuration(root, keys), new ConcurrentHashMap<>());
        if (!store.load()) {
            throw new IllegalStateException("a new store does not load");
        }
        store.start();
        stores.put(root, store);
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("config", keys);
        int count = job.get("count").getAsInt();
        List<List<Long>> acknowledged = draw.fill(store, store.clock, count);
        Set<String> deleted = job.get("again").getAsBoolean() ? draw.topics() : Set.of();
        if (!deleted.isEmpty()) {
            store.awaitDispatch();
            store.deleteTopics(deleted);
            acknowledged.addAll(draw.fill(store, store.clock, count / 3));
        }
        result.put("acknowledged", acknowledged);
        result.put("deleted", deleted);
        result.put("maxPhyOffset", store.getMaxPhyOffset());
        return result;
    }

    static MessageStoreConfig configuration(String root, JsonObject keys) {
        MessageStoreConfig config = new MessageStoreConfig();
        config.setStorePathRootDir(root);
        config.setStorePathCommitLog(root + "/commitlog");
        config.setEnableCompaction(false);
        // Nothing may be deleted behind a test's back.
        config.setFileReservedTime(1_000_000);
        config.setDiskMaxUsedSpaceRatio(99);
        Properties properties = new Properties();
        for (Map.Entry<String, JsonElement> entry : keys.entrySet()) {
            properties.setProperty(entry.getKey(), entry.getValue().getAsString());
        }
        MixAll.properties2Object(properties, config);
        return config;
    }

    private static Map<String, Long> lengths(File directory) {
        Map<String, Long> result = new TreeMap<>();
        for (File file : directory.listFiles()) {
            result.put(file.getName(), file.length());
        }
        return result;
    }

    private Object close(JsonObject job, boolean isAwaited) throws InterruptedException {
        // One shutdown sleeps for seconds; several can sleep at the same time.
        List<Thread> threads = new ArrayList<>();
        for (JsonElement root : job.getAsJsonArray("roots")) {
            Store store = stores.remove(root.getAsString());
            if (store != null) {
                threads.add(new Thread(store::shutdown));
            }
        }
        threads.forEach(Thread::start);
        for (Thread thread : threads) {
            if (isAwaited) {
                thread.join();
            }
        }
        return Map.of("closed", threads.size());
    }

    // ------------------------------------------------------- append, truncate

    private static Object append(Store store, JsonObject job) throws Exception {
        List<Object> results = new ArrayList<>();
        for (JsonElement each : job.getAsJsonArray("messages")) {
            JsonObject message = each.getAsJsonObject();
            results.add(result(message.has("batchBase64")
                ? store.putMessages(batch(message))
                : store.putMessage(message(message, new MessageExtBrokerInner()))));
        }
        store.awaitDispatch();
        return Map.of("results", results);
    }

    /** A batch has no body of its own but entries in client form. */
    private static MessageExtBatch batch(JsonObject from) throws IOException {
        MessageExtBatch batch = (MessageExtBatch) message(from, new MessageExtBatch());
        batch.setBody(Base64.getDecoder().decode(from.get("batchBase64").getAsString()));
        return batch;
    }

    static MessageExtBrokerInner message(JsonObject from, MessageExtBrokerInner to)
        throws IOException {
        to.setTopic(from.get("topic").getAsString());
        to.setQueueId(number(from, "queueId").intValue());
        if (from.has("bodyBase64")) {
            to.setBody(Base64.getDecoder().decode(from.get("bodyBase64").getAsString()));
        }
        to.setFlag(number(from, "flag").intValue());
        to.setSysFlag(number(from, "sysFlag").intValue());
        to.setBornTimestamp(number(from, "bornTimestamp").longValue());
        to.setReconsumeTimes(number(from, "reconsumeTimes").intValue());
        to.setPreparedTransactionOffset(
            number(from, "preparedTransactionOffset").longValue());
        to.setBornHost(address(from.get("bornHost").getAsString()));
        to.setStoreHost(address(from.get("storeHost").getAsString()));
        String properties = properties(from);
        MessageAccessor.setProperties(
            to, MessageDecoder.string2messageProperties(properties));
        to.setPropertiesString(properties);
        return to;
    }

    /** Either as they are to be stored, or as names and values. */
    private static String properties(JsonObject from) {
        if (from.has("propertiesRawHex")) {
            return new String(HexFormat.of().parseHex(from.get("propertiesRawHex").getAsString()),
                StandardCharsets.UTF_8);
        }
        Map<String, String> properties = new LinkedHashMap<>();
        if (from.has("properties")) {
            from.getAsJsonObject("properties").entrySet().forEach(
                entry -> properties.put(entry.getKey(), entry.getValue().getAsString()));
        }
        return MessageDecoder.messageProperties2String(properties);
    }

    private static Number number(JsonObject from, String key) {
        return from.has(key) ? from.get(key).getAsNumber() : 0;
    }

    /** The inverse of {@link #text(SocketAddress)}; literals only, no names. */
    private static SocketAddress address(String text) throws IOException {
        int colon = text.lastIndexOf(':');
        return new InetSocketAddress(InetAddress.getByName(text.substring(0, colon)),
            Integer.parseInt(text.substring(colon + 1)));
    }

    private static Map<String, Object> result(PutMessageResult put) {
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("status", put.getPutMessageStatus().name());
        AppendMessageResult appended = put.getAppendMessageResult();
        if (appended != null) {
            result.put("offset", appended.getWroteOffset());
            result.put("size", appended.getWroteBytes());
            result.put("queueOffset", appended.getLogicsOffset());
            result.put("count", appended.getMsgNum());
        }
        return result;
    }

    private static Object truncate(Store store, long offset) throws Exception {
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("truncated", store.truncateFiles(offset));
        store.awaitDispatch();
        result.putAll(store.ends());
        return result;
    }

    // ------------------------------------------------------- a slave at work

    /** As a broker does when the controller names a master, and a name server its port. */
    private static Object follow(Store store, JsonObject job) {
        AutoSwitchHAService replication = (AutoSwitchHAService) store.getHaService();
        long brokerId = job.get("brokerId").getAsLong();
        replication.setLocalBrokerId(brokerId);
        // A store of broker 0 passes over the bytes of a record that are not yet all
        // there when it builds queues; a slave waits for the rest.
        store.getBrokerConfig().setBrokerId(brokerId);
        boolean isTaken = replication.changeToSlave(
            job.get("address").getAsString(), job.get("epoch").getAsInt(), brokerId);
        replication.updateHaMasterAddress(job.get("address").getAsString());
        return Map.of("taken", isTaken);
    }

    /** As a broker does when the controller elects it. */
    private static Object lead(Store store, JsonObject job) throws Exception {
        AutoSwitchHAService replication = (AutoSwitchHAService) store.getHaService();
        replication.setLocalBrokerId(job.get("brokerId").getAsLong());
        replication.setSyncStateSet(Set.of(job.get("brokerId").getAsLong()));
        store.getBrokerConfig().setBrokerId(MixAll.MASTER_ID);
        boolean isTaken = replication.changeToMaster(job.get("epoch").getAsInt());
        store.getMessageStoreConfig().setBrokerRole(BrokerRole.ASYNC_MASTER);
        return Map.of("taken", isTaken,
            "haPort", store.getMessageStoreConfig().getHaListenPort());
    }

    /** Waits until the log ends and is confirmed there, and its queues hold that. */
    private static Object standing(Store store, JsonObject job) throws Exception {
        AutoSwitchHAService replication = (AutoSwitchHAService) store.getHaService();
        long deadline = System.currentTimeMillis() + job.get("timeoutMs").getAsLong();
        while (System.currentTimeMillis() < deadline
            && (store.getMaxPhyOffset() != job.get("end").getAsLong()
                || store.getConfirmOffset() != job.get("confirm").getAsLong()
                || store.dispatchBehindBytes() > 0)) {
            Thread.sleep(5);
        }
        Map<String, Object> result = new LinkedHashMap<>(store.ends());
        result.put("state", String.valueOf(replication.getHAClient().getCurrentState()));
        result.put("undispatchedBytes", store.dispatchBehindBytes());
        result.put("entries", pairs(replication.getEpochEntries()));
        return result;
    }

    // ------------------- small files: written if asked to, and then read again

    private static Object epochs(JsonObject job) {
        String path = job.get("root").getAsString() + "/epochFileCheckpoint";
        EpochFileCache cache = new EpochFileCache(path);
        boolean loaded = cache.initCacheFromFile();
        if (job.has("cut")) {
            cache.truncateSuffixByOffset(job.get("cut").getAsLong());
        }
        if (job.has("append")) {
            for (JsonElement pair : job.getAsJsonArray("append")) {
                cache.appendEntry(new EpochEntry(pair.getAsJsonArray().get(0).getAsInt(),
                    pair.getAsJsonArray().get(1).getAsLong()));
            }
        }
        return Map.of("loaded", loaded, "entries", pairs(cache.getAllEntries()));
    }

    private static List<List<Long>> pairs(List<EpochEntry> entries) {
        List<List<Long>> pairs = new ArrayList<>();
        for (EpochEntry entry : entries) {
            pairs.add(Arrays.asList((long) entry.getEpoch(), entry.getStartOffset()));
        }
        return pairs;
    }

    private static Object identity(JsonObject job) throws Exception {
        String path = job.get("root").getAsString() + "/brokerIdentity";
        if (job.has("write")) {
            JsonArray values = job.getAsJsonArray("write");
            new BrokerMetadata(path).updateAndPersist(values.get(0).getAsString(),
                values.get(1).getAsString(), values.get(2).getAsLong());
        }
        BrokerMetadata metadata = new BrokerMetadata(path);
        metadata.readFromFile();
        return Map.of("loaded", metadata.isLoaded(), "identity", Arrays.asList(
            metadata.getClusterName(), metadata.getBrokerName(), metadata.getBrokerId()));
    }

    private static Object checkpoint(JsonObject job) throws IOException {
        StoreCheckpoint checkpoint =
            new StoreCheckpoint(job.get("root").getAsString() + "/checkpoint");
        if (job.has("write")) {
            JsonArray values = job.getAsJsonArray("write");
            checkpoint.setPhysicMsgTimestamp(values.get(0).getAsLong());
            checkpoint.setLogicsMsgTimestamp(values.get(1).getAsLong());
            checkpoint.setIndexMsgTimestamp(values.get(2).getAsLong());
            checkpoint.setMasterFlushedOffset(values.get(3).getAsLong());
            checkpoint.setConfirmPhyOffset(values.get(4).getAsLong());
            checkpoint.flush();
        }
        Map<String, Object> result = checkpointValues(checkpoint);
        result.put("minTimestamp", checkpoint.getMinTimestamp());
        result.put("minTimestampIndex", checkpoint.getMinTimestampIndex());
        return result;
    }

    private static Map<String, Object> checkpointValues(StoreCheckpoint checkpoint) {
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("physicMsgTimestamp", checkpoint.getPhysicMsgTimestamp());
        result.put("logicsMsgTimestamp", checkpoint.getLogicsMsgTimestamp());
        result.put("indexMsgTimestamp", checkpoint.getIndexMsgTimestamp());
        result.put("masterFlushedOffset", checkpoint.getMasterFlushedOffset());
        result.put("confirmPhyOffset", checkpoint.getConfirmPhyOffset());
        return result;
    }

    // ----------------------------------------------------------------- report

    private static Object report(Store store, JsonObject job) throws Exception {
        Map<String, Object> result = new LinkedHashMap<>(store.ends());
        result.putAll(checkpointValues(store.getStoreCheckpoint()));
        new Walk(store).into(result);
        result.put("consumeQueues", consumeQueues(store));
        List<Object> answers = new ArrayList<>();
        if (job.has("queries")) {
            for (JsonElement query : job.getAsJsonArray("queries")) {
                answers.add(store.query(query.getAsJsonObject()));
            }
        }
        result.put("indexQueries", answers);
        return result;
    }

    private static Map<String, Object> consumeQueues(Store store) throws Exception {
        Map<String, Object> result = new TreeMap<>();
        for (Map<Integer, ConsumeQueueInterface> queues
            : store.getConsumeQueueTable().values()) {
            for (ConsumeQueueInterface queue : queues.values()) {
                result.put(queue.getTopic() + "/" + queue.getQueueId(),
                    store.queue(queue));
            }
        }
        return result;
    }

    /** Private in some versions, and inherited in others. */
    static Object field(Object owner, String name) throws Exception {
        for (Class<?> kind = owner.getClass(); kind != null; kind = kind.getSuperclass()) {
            for (Field field : kind.getDeclaredFields()) {
                if (field.getName().equals(name)) {
                    field.setAccessible(true);
                    return field.get(owner);
                }
            }
        }
        throw new NoSuchFieldException(owner.getClass() + " " + name);
    }

    static String sha256(byte[] bytes) throws Exception {
        return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(bytes));
    }

    private static String text(SocketAddress address) {
        InetSocketAddress host = (InetSocketAddress) address;
        String ip = host.getAddress().getHostAddress();
        return (ip.contains(":") ? "[" + ip + "]" : ip) + ":" + host.getPort();
    }

    /** A store without replication opens no socket; a slave has RocketMQ's own. */
    static final class Store extends DefaultMessageStore {
        private final MessageStoreConfig config;
        final RandomStore.SteppingClock clock = new RandomStore.SteppingClock();

        Store(MessageStoreConfig config, ConcurrentMap<String, TopicConfig> topics)
            throws Exception {
            this(config, topics, false);
        }

        Store(MessageStoreConfig config, ConcurrentMap<String, TopicConfig> topics,
            boolean isSlave) throws Exception {
            super(config, STATS, null, brokerConfig(isSlave), topics);
            this.config = config;
            if (isSlave) {
                return;
            }
            Field replication = DefaultMessageStore.class.getDeclaredField("haService");
            replication.setAccessible(true);
            replication.set(this, Proxy.newProxyInstance(
                StoreTool.class.getClassLoader(), new Class<?>[] {HAService.class},
                (proxy, method, arguments) -> null));
        }

        /** In controller mode a store has the replication that switches by itself. */
        private static BrokerConfig brokerConfig(boolean isSlave) {
            BrokerConfig config = new BrokerConfig();
            config.setEnableControllerMode(isSlave);
            return config;
        }

        /** The constructor of the superclass asks before there is one. */
        @Override
        public SystemClock getSystemClock() {
            return clock == null ? super.getSystemClock() : clock;
        }

        int segmentSize() {
            return config.getMappedFileSizeCommitLog();
        }

        Map<String, Object> ends() {
            Map<String, Object> result = new LinkedHashMap<>();
            result.put("minPhyOffset", getMinPhyOffset());
            result.put("maxPhyOffset", getMaxPhyOffset());
            result.put("flushedWhere", getFlushedWhere());
            result.put("confirmOffset", getConfirmOffset());
            return result;
        }

        void awaitDispatch() throws InterruptedException {
            long deadline = System.currentTimeMillis() + DISPATCH_TIMEOUT_MS;
            while (dispatchBehindBytes() > 0) {
                if (System.currentTimeMillis() > deadline) {
                    throw new IllegalStateException(
                        "not dispatched: " + dispatchBehindBytes() + " bytes");
                }
                Thread.sleep(1);
            }
        }

        Map<String, Object> query(JsonObject query) throws Exception {
            String topic = query.get("topic").getAsString();
            String key = query.get("key").getAsString();
            Map<String, Object> result = new LinkedHashMap<>();
            result.put("topic", topic);
            result.put("key", key);
            result.put("phyOffsets", ((IndexService) field(this, "indexService"))
                .queryOffset(topic, key, 1000, 0, Long.MAX_VALUE).getPhyOffsets());
            return result;
        }

        /** Of the queue offsets; it has moved with the versions. */
        Object topicQueueTable() throws Exception {
            Object queues = getQueueStore();
            Object operator = field(queues, "queueOffsetOperator");
            return field(operator, "topicQueueTable");
        }

        Map<String, Object> queue(ConsumeQueueInterface queue) throws Exception {
            Map<String, Object> result = new LinkedHashMap<>();
            result.put("topic", queue.getTopic());
            result.put("queueId", queue.getQueueId());
            result.put("minOffset", queue.getMinOffsetInQueue());
            result.put("maxOffset", queue.getMaxOffsetInQueue());
            result.put("maxPhysicOffset", queue.getMaxPhysicOffset());
            long first = Math.max(queue.getMinOffsetInQueue(), firstInFiles(queue));
            result.put("firstEntryOffset", first);
            List<List<Long>> entries = new ArrayList<>();
            for (long at = first; at < queue.getMaxOffsetInQueue(); ) {
                // One iterator ends with its file.
                ReferredIterator<CqUnit> units = queue.iterateFrom(at);
                if (units == null) {
                    break;
                }
                while (units.hasNext()) {
                    CqUnit unit = units.next();
                    entries.add(Arrays.asList(
                        unit.getPos(), (long) unit.getSize(), unit.getTagsCode()));
                    at = unit.getQueueOffset() + 1;
                }
                units.release();
            }
            result.put("entries", entries);
            return result;
        }

        /** The reported minimum can lie in a file that is gone. */
        private long firstInFiles(ConsumeQueueInterface queue) {
            String[] names = new File(config.getStorePathRootDir(), "consumequeue/"
                + queue.getTopic() + "/" + queue.getQueueId()).list();
            if (names == null || names.length == 0) {
                return 0;
            }
            Arrays.sort(names);
            return Long.parseLong(names[0]) / queue.getUnitSize();
        }
    }

    /** One pass over the log, from the minimum offset to the end. */
    private static final class Walk {
        private final Store store;
        private final List<Map<String, Object>> records = new ArrayList<>();
        private final List<List<Long>> blanks = new ArrayList<>();
        private final List<Map<String, Object>> badRecords = new ArrayList<>();
        private long lastRecordOffset = -1;

        Walk(Store store) {
            this.store = store;
        }

        void into(Map<String, Object> result) throws Exception {
            long offset = store.getMinPhyOffset();
            while (offset >= 0 && offset < store.getMaxPhyOffset()) {
                offset = step(offset);
            }
            result.put("recordCount", records.size());
            result.put("lastRecordOffset", lastRecordOffset);
            result.put("blanks", blanks);
            result.put("badRecords", badRecords);
            result.put("records", records);
        }

        /** Returns the offset of what follows, or -1 where nothing can. */
        private long step(long offset) throws Exception {
            SelectMappedBufferResult selected = store.getCommitLogData(offset);
            if (selected == null) {
                return -1;
            }
            try {
                ByteBuffer rest = selected.getByteBuffer().slice();
                int size = rest.getInt(0);
                int magic = rest.getInt(4);
                if (magic == MessageDecoder.BLANK_MAGIC_CODE) {
                    blanks.add(Arrays.asList(offset, (long) size));
                    return offset - offset % store.segmentSize() + store.segmentSize();
                }
                DispatchRequest check = store.checkMessageAndReturnSize(
                    rest.duplicate(), true, false, true);
                if (!check.isSuccess()) {
                    return bad(offset, rest, check);
                }
                byte[] bytes = new byte[size];
                rest.get(bytes);
                records.add(record(offset, bytes, check));
                lastRecordOffset = offset;
                return offset + size;
            } finally {
                selected.release();
            }
        }

        private long bad(long offset, ByteBuffer rest, DispatchRequest check) {
            DispatchRequest uncheckedCrc = store.checkMessageAndReturnSize(
                rest.duplicate(), false, false, true);
            Map<String, Object> result = new LinkedHashMap<>();
            result.put("offset", offset);
            result.put("checkSize", check.getMsgSize());
            result.put("validWithoutCrc", uncheckedCrc.isSuccess());
            badRecords.add(result);
            return uncheckedCrc.isSuccess() ? offset + uncheckedCrc.getMsgSize() : -1;
        }

        private static Map<String, Object> record(
            long offset, byte[] bytes, DispatchRequest check) throws Exception {
            MessageExt message = MessageDecoder.decode(ByteBuffer.wrap(bytes), true, false);
            if (message == null) {
                // RocketMQ's own decoder fails: a consumer would not get it.
                return Map.of("offset", offset, "size", bytes.length,
                    "recordSha256", sha256(bytes));
            }
            byte[] body = message.getBody() == null ? new byte[0] : message.getBody();
            Map<String, Object> line = new LinkedHashMap<>();
            line.put("offset", offset);
            line.put("size", bytes.length);
            line.put("magic", ByteBuffer.wrap(bytes).getInt(4) & 0xFFFFFFFFL);
            line.put("bodyCRC", message.getBodyCRC());
            line.put("queueId", message.getQueueId());
            line.put("flag", message.getFlag());
            line.put("queueOffset", message.getQueueOffset());
            line.put("physicalOffset", message.getCommitLogOffset());
            line.put("sysFlag", message.getSysFlag());
            line.put("bornTimestamp", message.getBornTimestamp());
            line.put("bornHost", text(message.getBornHost()));
            line.put("storeTimestamp", message.getStoreTimestamp());
            line.put("storeHost", text(message.getStoreHost()));
            line.put("reconsumeTimes", message.getReconsumeTimes());
            line.put("preparedTransactionOffset", message.getPreparedTransactionOffset());
            line.put("topic", message.getTopic());
            line.put("properties",
                message.getProperties() == null ? Map.of() : message.getProperties());
            line.put("propertiesRawHex", HexFormat.of().formatHex(rawProperties(bytes, message)));
            line.put("bodyLength", body.length);
            line.put("bodySha256", sha256(body));
            line.put("msgId", message.getMsgId());
            line.put("tagsCode", check.getTagsCode());
            line.put("recordSha256", sha256(bytes));
            line.put("offsetMsgId",
                MessageDecoder.createMessageId(message.getStoreHost(), offset));
            line.put("uniqKey", check.getUniqKey());
            line.put("keys", check.getKeys());
            if ((message.getSysFlag() & MessageSysFlag.COMPRESSED_FLAG) != 0) {
                // No message: the body was changed, and is no compressed body any more.
                MessageExt plain = MessageDecoder.decode(ByteBuffer.wrap(bytes), true, true);
                line.put("uncompressedLength", plain == null ? null : plain.getBody().length);
                line.put("uncompressedSha256", plain == null ? null : sha256(plain.getBody()));
            }
            return line;
        }

        private static byte[] rawProperties(byte[] bytes, MessageExt message) {
            int hosts = message.getBornHostBytes().capacity()
                + message.getStoreHostBytes().capacity();
            int at = 68 + hosts;
            ByteBuffer record = ByteBuffer.wrap(bytes);
            at += 4 + record.getInt(at);
            boolean longTopic = record.getInt(4) == MessageDecoder.MESSAGE_MAGIC_CODE_V2;
            at += longTopic ? 2 + record.getShort(at) : 1 + record.get(at);
            int length = record.getShort(at);
            return Arrays.copyOfRange(bytes, at + 2, at + 2 + length);
        }
    }
}
